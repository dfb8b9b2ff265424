#!/usr/bin/env python3
"""Options say what they do: a number out of its range, a name that is none and a contradiction are
refused before anything is written, and what a plan file holds can be read again.
Usage: options_test.py SOURCE_DIR WEIR"""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

weir = sys.argv[2]
TINY = {"model_type": "gpt2", "n_embd": 16, "n_head": 2, "n_layer": 3, "vocab_size": 32,
        "n_positions": 8}
faults = []


def run(line):
    return subprocess.run([weir, *line.split()], capture_output=True, text=True, timeout=120)


def refused(line, code, part):
    """One line, that code, and no file more than before."""
    before = sorted(pathlib.Path().rglob("*"))
    done = run(line)
    if done.returncode != code or part not in done.stderr:
        faults.append(f"weir {line}: {done.returncode}, expected {code} with '{part}': "
                      f"{done.stderr or done.stdout}")
    if sorted(pathlib.Path().rglob("*")) != before:
        faults.append(f"weir {line}: left a file")


def numbers(command):
    """The options of a sub-command that take a number or several, with the range help states."""
    text = run(f"{command} --help").stdout
    return re.findall(r"^  (?:-\w,)?(--[a-z-]+)\S* (?:INT|UINT|FLOAT)(:\S+ to \S+)?", text, re.M)


def groups(commands):
    """An option stands under the same heading wherever it is; of what a command does itself, which
    stands under none, there are at most twenty, however many options it has."""
    where = {}
    for command in commands:
        heading, under = None, {}
        for line in run(f"{command} --help").stdout.splitlines():
            if re.fullmatch(r"[A-Z][\w ]+:", line):
                heading = line[:-1]
            option = re.match(r"  (?:-\w,)?(--[a-z0-9-]+)", line)
            if not option or heading == "Examples":
                continue
            under.setdefault(heading, []).append(option[1])
            where.setdefault(option[1], {}).setdefault(heading, []).append(command)
        if len(under["Options"]) > 20:
            faults.append(f"weir {command} --help: {len(under['Options'])} options in no group")
        if command in ("plan", "sweep") and len(under) < 7:
            faults.append(f"weir {command} --help: its groups are {sorted(under)}")
    for option, headings in where.items():
        if len(headings) > 1:
            faults.append(f"{option}: under {headings}")
    for option, heading in (("--tp", "Parallel degrees"), ("--etp", "Parallel degrees"),
                            ("--recompute", "Schedule and stages"),
                            ("--learning-rate", "Optimizer"), ("--mtbf", "Failures"),
                            ("--cluster", "Machine and software")):
        if set(where[option]) != {heading}:
            faults.append(f"{option}: under {where[option]}, expected {heading}")


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    pathlib.Path("tiny.json").write_text(json.dumps(TINY))
    assert run("plan tiny.json -K 2 -M 4 -o plan.json").returncode == 0
    assert run("schedule 1f1b -K 2 -M 4 --csv mine.csv").returncode == 0

    commands = re.findall(r"^  ([a-z]+) ", run("--help").stdout.split("Subcommands:")[1], re.M)
    assert len(commands) >= 14, commands
    ranged = 0
    for command in commands:
        for option, bounds in numbers(command):
            ranged += 1
            if not bounds:
                faults.append(f"{command} {option} has no range")
    assert ranged >= 20, ranged

    refused("plan tiny.json -o nowhere/", 3, "nowhere/: cannot be written")
    for value in ("nan", "inf", "-1", "1e99", "x", ""):
        refused(f"plan tiny.json -o new.json --learning-rate={value}", 2, "--learning-rate")
        refused(f"run plan.json --patience={value}", 2, "--patience")
    for value in ("2147483647", "-1", "1.5", "99999999999999999999"):
        refused(f"plan tiny.json -o new.json --slots={value}", 2, "--slots")
        refused(f"sweep tiny.json -K 2 -M 4 --threads={value}", 2, "--threads")
        refused(f"sweep tiny.json -K 2 -M 4 --top={value}", 2, "--top")
    refused("sweep tiny.json -K 2 -M 4000000", 2, "expected numbers from 1 to 1048576")
    for value in ("-1", "9007199254740993", "x"):
        refused(f"plan tiny.json -o new.json --seed={value}", 2, "--seed")
    refused("sweep tiny.json -K 2 -M 4 --schedule nonesuch", 2, "--schedule nonesuch")
    refused("schedule mine.csv -K 5", 2, "--pp 5 contradicts mine.csv, which has 2")
    refused("schedule mine.csv -M 9", 2, "--microbatches 9 contradicts mine.csv, which has 4")
    refused("schedule mine.csv -v 2", 2, "--vpp 2 contradicts mine.csv, which has 1")
    assert run("schedule mine.csv -K 2 -M 4").returncode == 0

    # Times of passes: each once, and one that a pass can take.
    timed = "schedule 1f1b -K 2 -M 4 --uniform"
    refused(f"{timed} S=1ms,S=2ms", 2, "--uniform S=2ms: S is there twice")
    refused(f"{timed} F=1ms,I=1ms,W=1ms,F=1ms", 2, "--uniform F=1ms: F is there twice")
    refused(f"{timed} S=1e300ms", 2, "--uniform S=1e300ms: expected at most 9000000000 s")
    refused(f"{timed} latency=1e10s,F=1ms,I=1ms,W=1ms", 2, "latency=1e10s: expected at most 9")
    refused(f"{timed} F=1ms,W=1ms", 2, "--uniform: expected all of F, I and W")

    # What a layout has nothing of is refused where one is exported.
    layout = pathlib.Path(sys.argv[1]) / "tools/examples/layouts/transformer-lm.json"
    for option in ("--fork", "--allow-other-schedule"):
        refused(f"export {layout} --to dtensor {option}", 2, f"{option} is of a plan's schedule")
    refused(f"export {layout} --to dtensor --torchtitan-version 0.2", 2, "needs --to torchtitan")
    # A plan that a page or a job has no words for is named with its key.
    assert run("plan tiny.json -K 2 -M 4 --schedule vocab-1 -o vocab.json").returncode == 0
    refused("page vocab.json -o page.html", 3, "vocab.json: schedule: expected one that does not")
    refused("export vocab.json --to torch", 3, "vocab.json: schedule: vocab-1 divides")

    # A model where a plan is expected says how to go on.
    refused("simulate tiny.json", 3, "tiny.json: is a model: make a plan of it")
    refused("run tiny.json", 3, "weir plan tiny.json -K 2")
    # JSON is JSON where the plan goes to a file, too.
    whole = json.loads(run("plan tiny.json -K 2 -M 4 -o whole.json --json").stdout)
    if whole != json.loads(pathlib.Path("whole.json").read_text()):
        faults.append(f"weir plan -o --json: {whole}")
    # Who reads has read enough: nothing is said of it, and nothing failed.
    # What is written is more than a pipe holds, or it might all be there before the reader goes.
    gone = subprocess.Popen([weir, "schedule", "1f1b", "-K", "64", "-M", "512"],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    gone.stdout.readline()
    gone.stdout.close()
    if gone.stderr.read() or gone.wait() != 141:
        faults.append(f"a reader that goes: {gone.returncode}")
    for topic, part in (("files", "weir.plan/1"), ("exit-codes", "4 no feasible plan"),
                        ("schedules", "zb-v"), ("clusters", "dgx-h100")):
        if part not in run(f"help {topic}").stdout:
            faults.append(f"weir help {topic}: no {part}")
    refused("help filez", 2, "did you mean files")
    if run("-q help schedules").stdout != run("help schedules").stdout:
        faults.append("weir -q help schedules: says otherwise than without -q")
    groups(commands)

    # Of two cores one is used where one is asked for. 5: a build that does not train.
    tuned = run("tune tiny.json --global-batch-size 2 --rounds 1 --steps 1 --plans 1 -K 1 -o tuned")
    if tuned.returncode == 0:
        plans = json.loads(pathlib.Path("tuned/sweep.json").read_text())["plans"]
        if {row["plan"]["pp"] for row in plans} != {1}:
            faults.append("weir tune -K 1: more ranks were tried")
    elif tuned.returncode != 5:
        faults.append(f"weir tune -K 1: {tuned.stderr}")

    # The ends of a range go into a plan, and out of it again.
    for line in ("--slots 0", "--slots 1048576", "--learning-rate 0", "--learning-rate 1000000",
                 "--seed 9007199254740992", "--seed 0"):
        done = run(f"plan tiny.json -K 2 -M 4 {line} -o edge.json")
        read = run("simulate edge.json")
        if done.returncode != 0 or read.returncode != 0:
            faults.append(f"weir plan {line}: {done.stderr}{read.stderr}")

print("\n".join(faults) or f"options: {ranged} numbers with their ranges")
sys.exit(1 if faults else 0)
