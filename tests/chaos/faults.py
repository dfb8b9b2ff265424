"""What goes wrong: a signal, a disk, a folder, a limit. Each fault is told the case, and leaves in
it how the command ended."""
# SPDX-License-Identifier: Apache-2.0
import os
import resource
import shutil
import signal
import subprocess
import time

import place
from started import Started, children
from work import require

SIGNALS = {"kill": signal.SIGKILL, "terminate": signal.SIGTERM, "interrupt": signal.SIGINT}
STANDS_S = 9  # of a rank that is stopped; others miss it after six seconds


def begin(case, before=None, stdout=subprocess.PIPE):
    return Started(case.work.command(), case.folder, before, stdout)


def target(case, started):
    """The process that it befalls: of several, the launcher's or a rank's."""
    ranks = children(started.pid()) if case.work.name == "processes" else []
    chosen = case.random.randrange(3)
    return ranks[chosen - 1] if 0 < chosen <= len(ranks) else started.pid()


def ends_by(name):
    def befall(case):
        started = begin(case)
        started.sleep_until(case.moment)
        if started.send(target(case, started), SIGNALS[name]):
            case.sent.add(SIGNALS[name])
        case.ended = started.end()
    return befall


def stands_still(name):
    """Stopped, then continued or ended. Other ranks miss one that is stopped."""
    def befall(case):
        started = begin(case)
        started.sleep_until(case.moment)
        which = target(case, started)
        of_several = which != started.pid()
        stopped = started.send(which, signal.SIGSTOP)
        if stopped:
            time.sleep(STANDS_S if of_several else 0.2)
            if name != "continue" and started.send(which, SIGNALS[name]):
                case.sent.add(SIGNALS[name])
            started.send(which, signal.SIGCONT)
        case.ended = started.end()
        if of_several and case.ended.code != 0 and name == "continue":
            require(any("sign of life" in line or "did not all come" in line
                        for line in case.ended.told()), "a rank that stood still was not missed")
    return befall


def full_disk(case):
    """A disk with some room more than what is there; where none can be made, files that may not
    grow."""
    rest = case.random.choice((8, 24, 64, 160))
    if not place.can_mount():
        print(f"case {case.number}: no disk can be mounted here: files of {rest} KiB at most")
        case.ended = begin(case, limit(resource.RLIMIT_FSIZE, rest << 10)).end()
        return
    size = place.kibibytes_of(case.folder) + rest
    disk = case.folder.parent / (case.folder.name + "-disk")
    with place.small_disk(disk, size):
        place.copy(case.folder, disk)
        case.ended = Started(case.work.command(), disk).end()
        shutil.rmtree(case.folder)
        place.copy(disk, case.folder)  # for the checks, with room to go on
    disk.rmdir()


def full_output(case):
    """What is printed goes to a device that is full."""
    with open("/dev/full", "w", encoding="ascii") as full:
        case.ended = begin(case, stdout=full).end()
    require(case.ended.code in (3, 6), f"nothing was printed, and it ended with {case.ended.code}")


def limit(what, most):
    return lambda: resource.setrlimit(what, (most, most))


def short_files(case):
    most = case.random.choice((0, 512, 4096, 20_000))
    case.ended = begin(case, limit(resource.RLIMIT_FSIZE, most)).end()


def short_memory(case):
    mebibytes = case.random.randrange(100, 900)
    case.ended = begin(case, limit(resource.RLIMIT_AS, mebibytes << 20)).end()


def few_descriptors(case):
    case.ended = begin(case, limit(resource.RLIMIT_NOFILE, case.random.randrange(4, 24))).end()


def few_processes(case):
    most = case.random.randrange(1, 8)
    place.give_to_nobody(case.folder)

    def before():
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
        if os.getuid() == 0:
            place.become_nobody()
    case.ended = begin(case, before).end()


def forbidden_folder(case):
    """The folder may no longer be written, from some moment on."""
    place.give_to_nobody(case.folder)
    started = begin(case, place.become_nobody if os.getuid() == 0 else None)
    started.sleep_until(case.moment)
    place.forbid(case.folder)
    case.forbidden = True
    case.ended = started.end()
    place.allow(case.folder)


def vanishing_folder(case):
    """Somebody takes the output away."""
    started = begin(case)
    started.sleep_until(case.moment)
    shutil.rmtree(case.folder / case.work.output, ignore_errors=True)
    case.vanished = True
    case.ended = started.end()


ANYWHERE = {
    **{name: ends_by(name) for name in SIGNALS},
    "stop, continue": stands_still("continue"),
    "stop, kill": stands_still("kill"),
    "stop, terminate": stands_still("terminate"),
    "full disk": full_disk,
    "vanishing folder": vanishing_folder,
}
# Limits would befall the launcher, which is not ours, before the ranks.
ALONE = {
    "full output": full_output,
    "short files": short_files,
    "short memory": short_memory,
    "few descriptors": few_descriptors,
}
AS_NOBODY = {
    "few processes": few_processes,
    "forbidden folder": forbidden_folder,
}


def faults_of(work, nobody):
    """By name; `nobody`: whether the command can be run as a user without rights."""
    if work.name == "processes":
        return ANYWHERE
    return ANYWHERE | ALONE | (AS_NOBODY if nobody else {})
