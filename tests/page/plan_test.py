#!/usr/bin/env python3
"""`weir page PLAN`: the engine in the page times plans of uneven stages, run by Node.js without a
browser, to the nanosecond as `weir simulate --json` does: with messages that take time, bounded
receive slots, re-materialisation, replicas, tied weights and a norm of all gradients. A measured
trace stands in the page as compare has it; a trace of another plan is refused.
Usage: plan_test.py SOURCE_DIR WEIR"""
# SPDX-License-Identifier: Apache-2.0
import json
import math
import pathlib
import subprocess
import sys
import tempfile

from engine import NODE, answers
from settings import ASK_PLAN, differences, expected_of_plan, planned

if not NODE:
    print("skipped: no Node.js here (Debian: nodejs)")
    sys.exit(77)
source, weir = pathlib.Path(sys.argv[1]), sys.argv[2]
LAYERS = ["name,kind,parameters,f_ms,i_ms,w_ms,activation_bytes,boundary_bytes,count"]
LAYERS += [f"l{i},x,1000,{1 + i % 3},{2 + i % 2},{1 + i % 4 * 0.5},4096,2048,1" for i in range(16)]
ONE_NODE = ["--cluster", "dgx-h100"]
GPT = str(source / "tools/examples/models/gpt2-mini.json")
PLANS = [
    ["layers.csv", "-K", 4, "-M", 8, "--schedule", "1f1b"],
    ["layers.csv", "-K", 4, "-M", 6, "--schedule", "gpipe", "--recompute", "stage"],
    ["layers.csv", "-K", 3, "-M", 9, "--schedule", "zb-h1", "--slots", 1],
    ["layers.csv", "-K", 4, "-v", 2, "-M", 8, "--schedule", "interleaved-1f1b"],
    ["layers.csv", "-K", 4, "-M", 12, "--schedule", "zb-v"],
    ["layers.csv", "-K", 4, "-M", 8, "--schedule", "dualpipe"],
    ["layers.csv", "-K", 4, "-M", 8, "--schedule", "1f1b", "--recompute", "stage",
     "--recompute-microbatches", "except-last"],
    [GPT, "-K", 2, "-M", 4, "-b", 2],
    [GPT, "-K", 4, "-M", 8, "--clip-grad", 1, "--recompute", "full"],
    [GPT, "-K", 2, "-M", 8, "--schedule", "zb-v"],
]


def run(*words, code=0):
    done = subprocess.run([weir, "-q", *map(str, words)], capture_output=True, text=True)
    assert done.returncode == code, (words, done.stderr)
    return done


def timed_as_simulated(folder):
    jobs, told, page = [], [], folder / "page.html"
    for number, (model, *words) in enumerate(PLANS):
        plan = folder / f"{number}.json"
        run("plan", model, *words, "-o", plan)
        run("page", plan, *ONE_NODE, "-o", page)
        jobs.append(planned(page))
        told.append(expected_of_plan(weir, plan, ONE_NODE, page))
    wrong = []
    for words, answer, command in zip(PLANS, answers(page, jobs, ASK_PLAN), told):
        wrong += differences(words, answer, command)
    print("\n".join(wrong[:10])[:4000])
    assert not wrong, f"{len(wrong)} differences"


def nanoseconds(seconds):
    """As Weir rounds: a half, as the mean of two steps may be, away from zero; Python's round()
    takes it to the even number."""
    return int(math.copysign(math.floor(abs(seconds) * 1e9 + 0.5), seconds))


def holds_what_was_measured(folder):
    """Timed waits of two steps: their causes are those of `weir compare`, to the nanosecond."""
    plan, page, out = folder / "0.json", folder / "page.html", folder / "out"
    run("run", plan, "--backend", "synthetic", "--steps", 3, "-o", out)
    run("simulate", plan, *ONE_NODE, "-o", out)
    run("page", plan, *ONE_NODE, "--trace", out / "measured.json", "-o", page)
    has = planned(page)["measured"]
    both = (out / f"{kind}.json" for kind in ("predicted", "measured"))
    said = json.loads(run("compare", *both, "--json").stdout)
    assert has["step"] == nanoseconds(said["measured_s"]), (has["step"], said["measured_s"])
    parts = [[part["cause"], nanoseconds(part["difference_s"])] for part in said["waterfall"]]
    assert has["waterfall"] == parts, (has["waterfall"], parts)
    assert [len(row) for row in has["times"]] == [len(row) for row in planned(page)["times"]]
    run("page", folder / "1.json", "--trace", out / "measured.json", "-o", page, code=3)
    run("page", "--trace", out / "measured.json", "-o", page, code=2)


with tempfile.TemporaryDirectory() as name:
    here = pathlib.Path(name)
    (here / "layers.csv").write_text("\n".join(LAYERS) + "\n")
    for row in PLANS:
        row[0] = here / "layers.csv" if row[0] == "layers.csv" else row[0]
    timed_as_simulated(here)
    holds_what_was_measured(here)
print(f"page: {len(PLANS)} plans equal to the nanosecond")
