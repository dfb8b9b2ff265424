#!/usr/bin/env python3
"""Kills a rank in a chosen phase of training (forward, backward, reduction of gradients, optimizer,
writing of a checkpoint) on two stages times two replicas, a process each. The others end within
seconds, checkpoints are whole, and the run resumes, on one stage or two, to the losses and weights
of one that was never killed.

A rank writes what it is at into a file (exec/rank/last_action.hpp): from the step on that is asked
for, the process runs in slices, and is killed where it is stopped in its phase.

Usage: phases_test.py SOURCE_DIR WEIR MPIRUN [--cases 100] [--seed 1] [--only 17]"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import collections
import json
import os
import pathlib
import random
import re
import signal
import sys
import time

import place
from started import Started, children, run
from work import MPI, Broken, Run, require, require_ended

MODEL = {"model_type": "gpt2", "n_embd": 128, "n_head": 4, "n_layer": 3, "vocab_size": 4096,
         "n_positions": 32, "resid_pdrop": 0.1}
STEPS, EVERY, MICRO_BATCHES = 12, 3, 4
PHASES = {
    "forward": rf"\dF[0-{MICRO_BATCHES - 1}]: begun",
    "backward": rf"\dB[0-{MICRO_BATCHES - 1}]: begun",
    # The last backward is over and the optimizer has not begun.
    "reduction": rf"\dB{MICRO_BATCHES - 1}: ended",
    "optimizer": r"\dOPTIMIZER: begun",
    "checkpoint": None,  # while its folder is unfinished
}
# What a process may run between two stops, besides what stopping takes: a quarter of the shortest
# action's time in the trace of such a run, the second stage's optimizer (0.21 ms on an EPYC).
SLICE_S = 5e-5
ENDS_WITHIN_S = 60  # others miss a rank at once, or by --patience; the machine may be busy


class Killed(Run):
    """Training by mpirun on four processes; resumed by as many or by two."""

    name = "killed"
    line = f"run k2.json --warmup 0 --steps {STEPS} --checkpoint-every {EVERY} -o out --patience 20"

    def __init__(self, weir, mpirun):
        super().__init__(weir)
        self.mpirun = mpirun

    def command(self, line=None, processes=4):
        # The watcher goes first: a phase is over in less than a busy machine lets it wait.
        return ["nice", "-n", "5", self.mpirun, "-n", str(processes), self.weir, "-q",
                *(line or self.line).split()]

    def answer(self, line, processes, folder):
        ended = run(self.command("--json " + line, processes), folder)
        require(ended.code == 0, f"{line}: ended with {ended.code}: {ended.err.strip()}")
        return json.loads(ended.out)

    def prepare(self, folder):
        (folder / "tiny.json").write_text(json.dumps(MODEL))
        for stages in (1, 2):
            self.ok(f"plan tiny.json -K {stages} -M {MICRO_BATCHES} --micro-batch-size 4 --dp 2 "
                    f"-o k{stages}.json", folder)
        self.reference = self.answer(f"run k2.json --warmup 0 --steps {STEPS}", 4, folder)

    def goes_on(self, folder, random_):
        stages = random_.choice((1, 2))
        line, first = f"run k{stages}.json --warmup 0", 0
        made = sorted((folder / "out" / "checkpoints").glob("step-*"))
        if made:
            line += " --resume out"
            first = int(made[-1].name.removeprefix("step-"))
        result = self.answer(f"{line} --steps {STEPS - first} --checkpoint-every {EVERY} -o out",
                             2 * stages, folder)
        want = self.reference
        require(result["parameters_sha256"] == want["parameters_sha256"],
                f"resumed after step {first} on {stages} stages: other weights")
        require([step["loss"] for step in result["steps"]] ==
                [step["loss"] for step in want["steps"][first:]],
                f"resumed after step {first} on {stages} stages: other losses")
        left = list((folder / "out").rglob("*.tmp"))
        require(not left, f"left after it went on: {left}")


def pid_of(launcher, process):
    """Of the launcher's process of that number; None: it is not there yet."""
    for pid in children(launcher):
        try:
            words = (pathlib.Path("/proc") / str(pid) / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"OMPI_COMM_WORLD_RANK={process}".encode() in words:
            return pid
    return None


def stop(pid):
    """Whether it stands now; it may have ended."""
    os.kill(pid, signal.SIGSTOP)
    while True:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        if state in "TZX":
            return state == "T"
        time.sleep(0.0002)


class Aim:
    """A process (replica times stages plus rank), a phase of it, the first step that will do."""

    def __init__(self, phase, random_):
        self.phase = phase
        self.process, self.step = random_.randrange(4), random_.randrange(1, STEPS - 1)
        replica, rank = divmod(self.process, 2)
        self.file = f"rank-{rank}" + (f"-of-replica-{replica}" if replica else "") + ".txt"

    def __str__(self):
        return f"process {self.process} in its {self.phase} from step {self.step} on"

    def at(self, out, pattern):
        """Whether its last action matches, in that step or a later one; of a checkpoint, whether
        one of such a step is unfinished."""
        if self.phase == "checkpoint":
            return any(int(folder.name[6:12]) >= self.step
                       for folder in (out / "checkpoints").glob(".step-*.tmp"))
        try:
            line = (out / "last-actions" / self.file).read_text()
        except OSError:
            return False
        found = re.search(rf", step (\d+), {pattern}", line)
        return found is not None and int(found[1]) >= self.step

    def kill(self, started, out):
        """Whether it was killed there; False: the run ended before."""
        pid = None
        while started.process.poll() is None:
            if not self.at(out, ""):
                continue
            pid = pid or pid_of(started.pid(), self.process)
            if pid is None:
                continue
            try:
                there = stop(pid) and self.at(out, PHASES[self.phase])
                os.kill(pid, signal.SIGKILL if there else signal.SIGCONT)
            except (OSError, IndexError):
                return False  # ended
            if there:
                return True
            time.sleep(SLICE_S)
        return False


def kill_in(work, aim, folder):
    """One kill; runs that end before it comes to that are begun anew. A phase may be over before
    the watcher had its turn, so each of them lets the phase of one step sooner do."""
    for _ in range(20):
        out = folder / work.output
        if out.exists():
            place.remove(out)
        started = Started(work.command(), folder)
        hit = aim.kill(started, out)
        since = time.monotonic()
        ended = started.end()
        require(not ended.hung, "it did not end")
        if not hit:
            require(ended.code == 0, f"ended with {ended.code}: {ended.err.strip()}")
            aim.step = max(1, aim.step - 1)
            continue
        require(ended.code != 0, "a rank was killed and it ended with 0")
        seconds = time.monotonic() - since
        require(seconds < ENDS_WITHIN_S, f"it ended {seconds:.0f} s after the rank")
        require(len(ended.told()) <= 1, f"said {ended.told()}")
        return seconds
    raise Broken("never came to it in 20 runs")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source")
    parser.add_argument("weir", type=os.path.abspath)
    parser.add_argument("mpirun")
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="one case by its number")
    arguments = parser.parse_args()
    os.environ.update(MPI)
    work = Killed(arguments.weir, arguments.mpirun)
    done, failed, slowest = collections.Counter(), 0, 0.0
    with place.temporary_folder() as name:
        base = pathlib.Path(name) / "base"
        base.mkdir()
        work.prepare(base)
        numbers = range(arguments.cases) if arguments.only is None else [arguments.only]
        for number in numbers:
            random_ = random.Random(f"{arguments.seed}/{number}")
            phase = list(PHASES)[number % len(PHASES)]
            aim, folder = Aim(phase, random_), base.parent / f"case-{number}"
            place.copy(base, folder)
            try:
                slowest = max(slowest, kill_in(work, aim, folder))
                require_ended(folder, ENDS_WITHIN_S)
                work.whole(folder)
                work.goes_on(folder, random_)
                done[phase] += 1
            except Broken as broken:
                failed += 1
                print(f"FAILED: seed {arguments.seed}, case {number}: {aim}: {broken}\n  again: "
                      f"{' '.join(sys.argv)} --only {number}", flush=True)
            place.remove(folder)
    told = ", ".join(f"{phase} {count}" for phase, count in done.items())
    print(f"seed {arguments.seed}: ranks killed: {told}; {failed} failed; the slowest end came "
          f"{slowest:.1f} s after the kill")
    return 1 if failed or not done else 0


sys.exit(main())
