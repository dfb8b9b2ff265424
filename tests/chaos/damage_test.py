#!/usr/bin/env python3
"""Damaged checkpoints: a bit, a page, a cut, a file of another step or run, a false number. None is
trained on in silence: the damaged one is named, with why, and the newest whole one is gone on from,
to the very weights that it was written with.

Usage: damage_test.py SOURCE_DIR WEIR [--cases 500] [--seed 1] [--only 17]"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import collections
import hashlib
import json
import os
import pathlib
import random
import shutil
import sys

import place
from started import run
from work import Broken, require

MODEL = {"model_type": "gpt2", "n_embd": 32, "n_head": 2, "n_layer": 2, "vocab_size": 64,
         "n_positions": 8, "resid_pdrop": 0.1}
STATE, FACTS = "state.safetensors", "checkpoint.json"
PAGE = 4096


def flip(path, at, bit):
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)


def header_bytes(path):
    return 8 + int.from_bytes(path.read_bytes()[:8], "little")


def bit_in_header(step, random_):
    path = step / STATE
    flip(path, random_.randrange(header_bytes(path)), random_.randrange(8))


def bit_in_tensors(step, random_):
    path = step / STATE
    flip(path, random_.randrange(header_bytes(path), path.stat().st_size), random_.randrange(8))


def bit_in_facts(step, random_):
    path = step / FACTS
    flip(path, random_.randrange(path.stat().st_size), random_.randrange(8))


def cut(step, random_):
    path = step / random_.choice((STATE, FACTS))
    os.truncate(path, random_.randrange(path.stat().st_size))


def longer(step, random_):
    with (step / random_.choice((STATE, FACTS))).open("ab") as file:
        file.write(bytes(random_.randrange(1, PAGE)))


def zero_page(step, random_):
    """A page that a disk lost, within the tensors; at times all of them."""
    path = step / STATE
    data = bytearray(path.read_bytes())
    first = header_bytes(path)
    if random_.random() < 0.2:
        data[first:] = bytes(len(data) - first)
    else:
        begin = random_.randrange(first, len(data) - PAGE)
        data[begin:begin + PAGE] = bytes(PAGE)
    path.write_bytes(data)


def of_another_step(step, random_):
    """The state, or what is said of it, of an earlier step."""
    name = random_.choice((STATE, FACTS))
    shutil.copy(step.parent / "step-000002" / name, step / name)


def of_another_run(step, _random):
    shutil.copy(step.parents[2] / "other" / "checkpoints" / step.name / STATE, step / STATE)


def sealed(facts):
    """As exec/checkpoint writes it: the hash of the text, the hash's own digits as zeros."""
    facts["sha256"] = "0" * 64
    text = json.dumps(facts, indent=2) + "\n"
    return text.replace("0" * 64, hashlib.sha256(text.encode()).hexdigest())


def false_number(step, random_):
    """A step or a number of samples that is not so, its seal made anew: a slip, no damage."""
    facts = json.loads((step / FACTS).read_text())
    key = random_.choice(("step", "samples"))
    facts[key] += random_.choice((1, 54, 10 * facts[key]))
    (step / FACTS).write_text(sealed(facts))


def missing(step, random_):
    (step / random_.choice((STATE, FACTS))).unlink()


def no_file(step, random_):
    """A pipe that nobody writes into, or a folder."""
    path = step / random_.choice((STATE, FACTS))
    path.unlink()
    random_.choice((os.mkfifo, os.mkdir))(path)


DAMAGES = {"a bit of the header": bit_in_header, "a bit of the tensors": bit_in_tensors,
           "a bit of checkpoint.json": bit_in_facts, "cut off": cut, "longer": longer,
           "pages of zeros": zero_page, "of another step": of_another_step,
           "of another run": of_another_run, "a false number": false_number,
           "missing": missing, "no file": no_file}


class Trained:
    """A run of six steps with a checkpoint every second one, and one of another seed."""

    def __init__(self, weir, folder):
        self.weir, self.folder = weir, folder
        (folder / "tiny.json").write_text(json.dumps(MODEL))
        for seed, out in ((1, "out"), (7, "other")):
            self.ok(f"plan tiny.json -K 2 -M 2 --seed {seed} -o {out}.json")
            self.ok(f"run {out}.json --warmup 0 --steps 6 --checkpoint-every 2 -o {out}")
        self.weights = {step: self.resumed(folder / "out" / "checkpoints" / f"step-{step:06}")[0]
                        for step in (2, 4, 6)}
        require(len({str(found) for found in self.weights.values()}) == 3, "steps are alike")

    def call(self, line):
        return run([self.weir, "--json", "-q", *line.split()], self.folder)

    def ok(self, line):
        ended = self.call(line)
        require(ended.code == 0, f"{line}: ended with {ended.code}: {ended.err}")
        return ended

    def resumed(self, path):
        """(step, weights) that a run would go on from, and what was said."""
        ended = self.call(f"run out.json --steps 0 --resume {path}")
        require(not ended.hung and ended.code in (0, 3), f"ended with {ended.code}: {ended.err}")
        if ended.code != 0:
            return None, ended.err
        found = json.loads(ended.out)
        return (found["first_step"], found["parameters_sha256"]), ended.err


def strike(trained, copy, number, random_):
    """One damage to the newest checkpoint; of every fifth case to the one before it, too."""
    kind = list(DAMAGES)[number % len(DAMAGES)]
    hit = [6, 4] if random_.random() < 0.2 else [6]
    for step in hit:
        DAMAGES[kind](copy / "checkpoints" / f"step-{step:06}", random_)
    left = 6 - 2 * len(hit)
    found, said = trained.resumed(copy)
    require(found != trained.weights[6], f"{kind}: was not noticed: {said}")
    require(found == trained.weights[left], f"{kind}: goes on from {found}: {said}")
    for step in hit:
        line = f"step-{step:06} is damaged ("
        require(line in said and f": step-{left:06} is used" in said, f"{kind}: said {said!r}")
    require(len(said.splitlines()) == len(hit), f"{kind}: said {said!r}")
    # By its name it is refused, and not passed over.
    found, said = trained.resumed(copy / "checkpoints" / "step-000006")
    require(found is None and len(said.splitlines()) == 1, f"{kind}: by its name: {said!r}")
    return kind


def none_left(trained, copy):
    for step in (2, 4, 6):
        os.truncate(copy / "checkpoints" / f"step-{step:06}" / STATE, 100)
    found, said = trained.resumed(copy)
    require(found is None and "step-000006 is damaged (" in said, f"none left: {found}, {said!r}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source")
    parser.add_argument("weir", type=os.path.abspath)
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="one case by its number")
    arguments = parser.parse_args()
    done, failed = collections.Counter(), 0
    with place.temporary_folder() as name:
        root = pathlib.Path(name)
        trained = Trained(arguments.weir, root)
        copy = root / "copy"
        numbers = range(arguments.cases) if arguments.only is None else [arguments.only]
        for number in [*numbers, None]:
            shutil.copytree(root / "out", copy)
            try:
                if number is None:
                    none_left(trained, copy)
                else:
                    random_ = random.Random(f"{arguments.seed}/{number}")
                    done[strike(trained, copy, number, random_)] += 1
            except Broken as broken:
                failed += 1
                print(f"FAILED: seed {arguments.seed}, case {number}: {broken}\n  again: "
                      f"{' '.join(sys.argv)} --only {number}", flush=True)
            shutil.rmtree(copy)
    told = ", ".join(f"{kind} {count}" for kind, count in sorted(done.items()))
    print(f"seed {arguments.seed}: {sum(done.values())} damaged checkpoints ({told}), "
          f"{failed} failed")
    return 1 if failed else 0


sys.exit(main())
