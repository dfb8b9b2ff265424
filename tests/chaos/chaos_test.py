#!/usr/bin/env python3
"""Seeded faults against the real command: however `run`, `tune`, `evaluate` or `sweep` is ended,
hindered or starved, it says so in one line and by its exit code, what was there before is still
there, what is there is whole, nothing temporary is left, and it goes on to the same answer.

Usage: chaos_test.py SOURCE_DIR WEIR [MPIRUN] [--cases 200] [--seed 1] [--works run,sweep]
                     [--only 17]
A case is its number and the seed; one that fails prints both and the command to repeat it."""
# SPDX-License-Identifier: Apache-2.0
import argparse
import collections
import os
import pathlib
import random
import signal
import sys

import place
from faults import faults_of
from started import is_remark, run
from work import (MPI, Broken, Evaluate, Processes, Run, Sweep, Tune, lay_out, require,
                  require_ended)

CODES = {0, 2, 3, 4, 5, 6, 130, 143}


class Case:
    """One fault at one moment of one work."""

    def __init__(self, number, seed, work, fault, folder):
        self.number, self.work, self.fault, self.folder = number, work, fault, folder
        self.random = random.Random(f"{seed}/{number}")
        # Some come before it begins or after it has ended.
        self.moment = self.random.random() * 1.1 * work.seconds
        self.sent, self.ended = set(), None
        self.vanished = self.forbidden = False  # the output, its folder

    def killed(self):
        return signal.SIGKILL in self.sent


def check_end(case):
    """One of the exit codes with one line, or death by the very signal that was sent."""
    ended = case.ended
    require(not ended.hung, "it did not end")
    if case.work.name == "processes":  # the launcher has the code and words of its own
        require(len(ended.told()) <= 1, f"said {ended.told()}")
        return
    if -ended.code in case.sent:
        return
    loader = ended.code == 127 or "error while loading shared libraries" in ended.err
    if loader:
        return  # before there is a program
    require(ended.code in CODES, f"ended with {ended.code}: {ended.err}")
    said = [line for line in ended.err.splitlines() if line and not is_remark(line)]
    if ended.code != 0:
        require(len(said) == 1 and said[0].startswith("weir: "),
                f"ended with {ended.code} and said {said}")
    if case.sent and ended.code != 0:
        require(any(sent.name in said[0] for sent in case.sent) or "stopped" in said[0],
                f"sent {case.sent}, said {said}")


def check_files(case, before):
    """What was there is there, old or new, and whole; an error leaves all of it as it was."""
    case.work.whole(case.folder)
    after = place.files_of(case.folder)
    if not case.vanished and not case.killed():
        lost = sorted(set(before) - set(after))
        require(not lost, f"lost: {lost}")
    changed = {name for name in before if name in after and before[name] != after[name]}
    # A sweep writes several files, one after the other, each whole.
    if changed and case.ended.code != 0 and case.work.name != "sweep" and not case.vanished:
        # All was written before the signal came, or before it could not be told.
        done = (case.sent or "standard output" in case.ended.err
                or "what else the run made is kept" in case.ended.err)
        require(done and case.work.result in changed, f"failed and changed {sorted(changed)}")
    if case.killed():
        return  # nobody is left to clear away: what is unfinished goes with the next run
    left = sorted(name for name in after if ".tmp" in name)
    # A file that had its temporary name when the folder was closed cannot be cleared away.
    require(len(left) <= (1 if case.forbidden else 0), f"temporary files left: {left}")


def befall(case, base):
    place.copy(base, case.folder)
    before = {name: data for name, data in place.files_of(case.folder).items()}
    case.befall(case)
    check_end(case)
    # Before anybody looks at what they might still write. Ranks whose launcher was killed may take
    # the time to miss it.
    missed = case.work.name == "processes" and case.killed()
    require_ended(case.folder, 30 if missed else 0)
    check_files(case, before)
    case.work.goes_on(case.folder, case.random)


def works_of(arguments):
    works = [Run(arguments.weir), Tune(arguments.weir), Evaluate(arguments.weir),
             Sweep(arguments.weir)]
    if arguments.mpirun:
        works.append(Processes(arguments.weir, arguments.mpirun))
    if arguments.works:
        works = [work for work in works if work.name in arguments.works.split(",")]
    return works


def prepare(works, root, arguments):
    """Each work once without a fault, for its answer, its earlier result and its time."""
    for work in works:
        base = root / ("base-" + work.name)
        base.mkdir()
        lay_out(base, arguments.weir)
        work.prepare(base)
        trial = root / ("trial-" + work.name)
        place.copy(base, trial)
        ended = run(work.command(), trial)
        require(ended.code == 0, f"{work.name} without a fault: {ended.err}")
        work.seconds = ended.seconds


def pairs_of(works, nobody, seed):
    """Every work with each of its faults, in an order by the seed."""
    pairs = [(work, name, fault) for work in works
             for name, fault in faults_of(work, nobody).items()]
    random.Random(seed).shuffle(pairs)
    return pairs


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source")
    parser.add_argument("weir", type=os.path.abspath)
    parser.add_argument("mpirun", nargs="?")
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--works", default="", help="run,tune,evaluate,sweep,processes")
    parser.add_argument("--only", type=int, help="one case by its number")
    arguments = parser.parse_args()
    os.environ.update(MPI)
    nobody = place.can_be_nobody(arguments.weir)
    if not nobody:
        print("the command cannot be run as nobody: few processes and forbidden folders left out")
    works = works_of(arguments)
    failed, done = 0, collections.Counter()
    with place.temporary_folder() as name:
        root = pathlib.Path(name)
        prepare(works, root, arguments)
        pairs = pairs_of(works, nobody, arguments.seed)
        numbers = range(arguments.cases) if arguments.only is None else [arguments.only]
        for number in numbers:
            work, fault, act = pairs[number % len(pairs)]
            case = Case(number, arguments.seed, work, fault, root / f"case-{number}")
            case.befall = act
            done[work.name] += 1
            try:
                befall(case, root / ("base-" + work.name))
            except Broken as broken:
                failed += 1
                print(f"FAILED: seed {arguments.seed}, case {number}: {work.name}, {fault} at "
                      f"{case.moment:.3f} s: {broken}\n  {' '.join(work.command())}\n  again: "
                      f"{' '.join(sys.argv)} --only {number}", flush=True)
            place.remove(case.folder)
    told = ", ".join(f"{name} {count}" for name, count in sorted(done.items()))
    print(f"seed {arguments.seed}: {sum(done.values())} cases ({told}), {failed} failed")
    return 1 if failed else 0


sys.exit(main())
