"""What is counted of one trainer, and how its judge and `weir` are asked."""
# SPDX-License-Identifier: Apache-2.0

import collections
import dataclasses
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


@dataclasses.dataclass
class Gate:
    """Where everything is."""

    source: str  # Weir's sources
    program: str  # weir
    trainers: str  # folder of checkouts
    work: str  # folder of what is written
    more: list  # options of every `weir export`

    def weir(self, *words):
        return subprocess.run(
            [self.program, "-q", *map(str, words)], capture_output=True, text=True, timeout=600
        )


class Part:
    """Counts of one trainer: what started, what was refused and by which row, and what failed."""

    def __init__(self, gate, name):
        self.gate, self.name = gate, f"{name} {' '.join(gate.more)}".strip()
        self.started, self.refused, self.failed = 0, collections.Counter(), {}

    def exported(self, plan, out, *more):
        """The lines of an export, or None where it was refused."""
        run = self.gate.weir("export", plan, "-o", out, *more, *self.gate.more)
        if run.returncode == 0:
            return run.stdout
        said = run.stderr.strip().splitlines()[-1]
        row = re.search(r"\(row ([^)]*)\)", said)
        self.refused[row.group(1) if row else "its words: " + said.split(": ", 2)[-1][:70]] += 1
        return None

    def judged(self, script, jobs, wanted, *more):
        """Starts what was exported, and compares what the trainer understood with the plans."""
        for verdict in judge(script, jobs, *more):
            name, args = verdict["id"], verdict["args"]
            wrong = {k: (v, args.get(k)) for k, v in wanted[name].items() if args.get(k) != v}
            if verdict["error"] is not None:
                self.fail(name, (verdict["error"].splitlines() or [""])[0][:160])
            elif wrong:
                self.fail(name, f"other values, plan and trainer: {wrong}")
            else:
                self.started += 1
        return self.told()

    def fail(self, plan, why):
        self.failed.setdefault(re.sub(r"\d+", "#", why), []).append((plan, why))

    def told(self):
        refused, failed = sum(self.refused.values()), sum(map(len, self.failed.values()))
        print(
            f"{self.name}: {self.started} of {self.started + refused + failed} start, "
            f"{refused} refused, {failed} fail"
        )
        for row, count in self.refused.most_common():
            print(f"  refused {count:4} {row}")
        for cases in self.failed.values():
            print(f"  FAILED  {len(cases):4} {cases[0][1]}, as {[name for name, _ in cases[:3]]}")
        sys.stdout.flush()
        return not self.failed


def judge(script, jobs, *more):
    """The verdicts of a judge, which runs in a process of its own: it imports a checkout."""
    text = "".join(json.dumps(job) + "\n" for job in jobs)
    run = subprocess.run(
        [sys.executable, "-W", "ignore", os.path.join(HERE, script), *more],
        input=text,
        text=True,
        capture_output=True,
    )
    if run.returncode:
        raise RuntimeError(run.stderr[-2000:])
    return [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]


def read(path):
    with open(path) as file:
        return json.load(file)


def plans_in(folder):
    return sorted(os.listdir(f"{folder}/plans"))


def stage_blocks(plan, folder):
    """Blocks of each stage."""
    layers = layers_of(plan, folder)
    bounds = [0, *plan.get("boundaries", []), layers + 3]
    return [sum(1 <= layer <= layers for layer in range(a, b)) for a, b in zip(bounds, bounds[1:])]


def layers_of(plan, folder):
    model = read(os.path.normpath(f"{folder}/plans/{plan['model']}"))
    if "layers" in model:
        return len(model["layers"]) - 3
    return model.get("num_hidden_layers", model.get("n_layer"))
