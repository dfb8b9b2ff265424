#!/usr/bin/env python3
"""Judges what the engines say by checkers that share no code with them: predicted and measured
traces of every published schedule are replayed, broken ones are found out, and random schedules end
where they were proved to, and nowhere else.
Usage: oracle_test.py SOURCE_DIR WEIR [SCHEDULES]"""
# SPDX-License-Identifier: Apache-2.0
import copy
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import deadlock
import replay

weir = os.path.abspath(sys.argv[2])
SEED, RANDOM = 7, int(sys.argv[3]) if len(sys.argv) > 3 else 200
TINY = {"model_type": "gpt2", "n_embd": 16, "n_head": 2, "n_layer": 14, "vocab_size": 32,
        "n_positions": 8}
UNET = {"schema": "weir.cnn/1", "network": "unet", "layers": "blocks", "depth": 2, "channels": 4,
        "convolutions": 1, "image": 16, "output_channels": 3}
SHAPES = [(2, 4, 1), (4, 8, 1), (4, 4, 2), (3, 9, 2)]  # K, M, v
failures, judged = [], {"predicted": 0, "synthetic": 0, "cpu": 0, "broken": 0}


def run(*words, code=0):
    done = subprocess.run([weir, "-q", *map(str, words)], capture_output=True, text=True)
    if code is not None:
        assert done.returncode == code, f"weir {words}: {done.stderr}"
    return done


def rows_of(csv):
    return [[word for word in line.split(",") if word] for line in
            csv.replace("(", "").replace(")OVERLAP_F_B", "").replace(";", ",").splitlines()
            if not line.startswith("#")]


def judge(what, kind, folder, rows, told, levels=0):
    name = "predicted" if kind == "predicted" else "measured"
    trace = json.loads(pathlib.Path(folder, f"{name}.json").read_text())
    found = replay.faults(trace, rows, told, levels)
    judged[kind] += 1
    if found:
        failures.append(f"{what}, {kind}: {len(found)} faults, first: {found[0]}")
    return trace


def published():
    """Every published schedule that can be made, with and without re-materialisation; those that
    divide the vocabulary have no CSV and do not run, and an oracle of their own
    (tests/sim/vocabulary/vocabulary_test.cpp)."""
    names = {row["name"]: row["default_slices"] for row in
             json.loads(run("schedule", "--list", "--json").stdout)["schedules"]}
    for name in ("vocab-1", "vocab-2", "interlaced"):
        del names[name]
    assert len(names) >= 15, names
    for name, slices in names.items():
        for k, m, v in SHAPES:
            for recompute in ("none", "stage"):
                shape = ["-K", k, "-M", m, "-v", v]
                made = run("plan", "tiny.json", *shape, "--schedule", name, "--recompute",
                           recompute, "-o", "plan.json", code=None)
                if made.returncode != 0:
                    continue  # not of this shape; says so by itself
                what = f"{name} K={k} M={m} v={v} {recompute}"
                rows = rows_of(run("schedule", name, *shape, "--csv", "-").stdout)
                told = json.loads(run("simulate", "plan.json", "-o", "out", "--json").stdout)
                trace = judge(what, "predicted", "out", rows, told)
                if recompute == "none" and m == 4:
                    run("run", "plan.json", "--backend", "synthetic", "--steps", 2, "--warmup", 0,
                        "-o", "out")
                    judge(what, "synthetic", "out", rows, None)
                if (k, v, slices, recompute) == (2, 1, 1, "none"):  # slices are not trained
                    run("run", "plan.json", "--steps", 2, "--warmup", 0, "-o", "out")
                    judge(what, "cpu", "out", rows, None)
                    breaks(what, trace, rows, told)


def skipping():
    """A U-Net whose skips go directly: its messages are those that follow from its levels, are
    waited for and have slots of their own, forecast as run."""
    for boundaries in ("1,2,3,4", "1,2,4", "2,3"):
        k = boundaries.count(",") + 2
        for schedule in ("gpipe", "1f1b", "zb-h1"):
            what = f"unet {schedule} {boundaries} direct"
            run("plan", "unet.json", "-K", k, "-M", 6, "--schedule", schedule, "--boundaries",
                boundaries, "--skips", "direct", "-o", "plan.json")
            rows = rows_of(run("schedule", schedule, "-K", k, "-M", 6, "--csv", "-").stdout)
            told = json.loads(run("simulate", "plan.json", "-o", "out", "--json").stdout)
            trace = judge(what, "predicted", "out", rows, told, levels=2)
            for backend in ("synthetic", "cpu"):
                run("run", "plan.json", "--backend", backend, "--steps", 2, "--warmup", 0, "-o",
                    "out")
                judge(what, backend, "out", rows, None, levels=2)
            lost = copy.deepcopy(trace)
            lost["traceEvents"] = [e for e in lost["traceEvents"] if ":" not in e["name"]]
            judged["broken"] += 1
            if not replay.faults(lost, rows, None, levels=2):
                failures.append(f"{what}: lost skips were not found out")
            breaks(what, trace, rows, told, levels=2)


def breaks(what, trace, rows, told, levels=0):
    """The checkers can fail: each of these is found out."""
    def broken(name, change):
        spoilt = copy.deepcopy(trace)
        events = [e for e in spoilt["traceEvents"] if "operation" in e.get("args", {})]
        change(spoilt, events)
        judged["broken"] += 1
        if not replay.faults(spoilt, rows, told, levels):
            failures.append(f"{what}: {name} was not found out")

    def first(events, kind):
        return next(e for e in events if replay.action(e["name"])[1] == kind)

    def earlier(kind):
        def change(_, events):
            late = max((e for e in events if replay.action(e["name"])[1] == kind),
                       key=lambda e: e["args"]["start_ns"])
            length = late["args"]["end_ns"] - late["args"]["start_ns"]
            late["args"].update(start_ns=0, end_ns=length)
        return change

    for kind in ("F", "SEND_F", "RECV_F", "OPTIMIZER"):
        broken(f"an early {kind}", earlier(kind))
    broken("a longer F", lambda _, events: first(events, "F")["args"].update(
        end_ns=first(events, "F")["args"]["end_ns"] + 1000))
    broken("a lost step's end", lambda spoilt, _: spoilt["weir"]["steps"][0].update(
        end_ns=spoilt["weir"]["steps"][0]["end_ns"] + 1000))
    broken("a byte more", lambda spoilt, _: next(
        c for c in spoilt["weir"]["counters"] if c["name"] == "memory")["value"].append(1 << 40)
        or next(c for c in spoilt["weir"]["counters"] if c["name"] == "memory")["time_ns"].append(
            spoilt["weir"]["steps"][0]["end_ns"]))


def random_rows(draw, ranks, units):
    """Valid for each rank by itself: F before its backward, backwards in ascending order. Whether
    the ranks go together is another matter."""
    rows = []
    for stage in range(ranks):
        split = draw.random() < 0.3
        row, forwards, back, open_weights = [], list(range(units)), 0, []
        if draw.random() < 0.3:
            draw.shuffle(forwards)
        while forwards or back < units or open_weights:
            done = {unit for _, letter, unit in row if letter == "F"}
            can = [("F", forwards[0])] * 2 if forwards else []
            if back < units and back in done:
                can += [("I" if split else "B", back)] * 2
            if open_weights:
                can.append(("W", open_weights[0]))
            letter, unit = draw.choice(can)
            row.append((stage, letter, unit))
            if letter == "F":
                forwards.pop(0)
            elif letter == "W":
                open_weights.pop(0)
            else:
                back += 1
                open_weights += [unit] if letter == "I" else []
        rows.append(row)
    return rows


def proofs():
    draw = random.Random(SEED)
    outcomes = {True: 0, False: 0}
    for number in range(RANDOM):
        ranks, units, slots = draw.randint(2, 4), draw.randint(1, 6), draw.choice([0, 1, 2, 3])
        rows = random_rows(draw, ranks, units)
        pathlib.Path("mine.csv").write_text("\n".join(
            ",".join(f"{s}{letter}{u}" for s, letter, u in row) for row in rows) + "\n")
        ends = deadlock.ends(rows, ranks, slots)
        outcomes[ends] += 1
        made = run("plan", "tiny.json", "-K", ranks, "-M", units, "--schedule", "mine.csv",
                   "--slots", slots, "-o", "mine.json", code=None)
        if made.returncode not in (0, 3) or (made.returncode == 0) != ends:
            failures.append(f"random schedule {number}, {slots} slots: the checker says "
                            f"{'it ends' if ends else 'it does not'}: {made.stderr}")
            continue
        if ends:
            told = json.loads(run("simulate", "mine.json", "-o", "out", "--json").stdout)
            names = [[f"{s}{letter}{u}" for s, letter, u in row] for row in rows]
            judge(f"random schedule {number}", "predicted", "out", names, told)
            if number % 10 == 0:
                run("run", "mine.json", "--backend", "synthetic", "--steps", 1, "--warmup", 0,
                    "-o", "out")
                judge(f"random schedule {number}", "synthetic", "out", names, None)
    assert min(outcomes.values()) * 10 > RANDOM, outcomes
    return outcomes


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    pathlib.Path("tiny.json").write_text(json.dumps(TINY))
    pathlib.Path("unet.json").write_text(json.dumps(UNET))
    published()
    skipping()
    ended = proofs()

for failure in failures:
    print(failure)
print(f"oracle: traces {judged}, random schedules (seed {SEED}): {ended[True]} end, "
      f"{ended[False]} do not, {len(failures)} failures")
sys.exit(1 if failures else 0)
