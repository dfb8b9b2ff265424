#!/usr/bin/env python3
"""What goes where: as CSV numbers, units in the heads, and texts that no spreadsheet runs; as JSON
one value, whatever file is written besides; with -q nothing but errors on stderr, and nothing at
all where who reads has gone.
Usage: streams_test.py SOURCE_DIR WEIR"""
# SPDX-License-Identifier: Apache-2.0
import csv
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

source, weir = pathlib.Path(sys.argv[1]).resolve(), os.path.abspath(sys.argv[2])
FORMULA = "=HYPERLINK(1)"  # of a layer, which a file may call so
CHAIN = ("name,kind,parameters,f_ms,i_ms,w_ms,activation_bytes,boundary_bytes,count\n"
         f"{FORMULA},x,1000,1,1,1,4096,64,8\n")
UNITS = re.compile(r"[-+]?[\d.,]+ ?(s|ms|us|ns|min|h|B|KiB|MiB|GiB|TiB|%)")
# Each prints tables; to each also what it writes, if it can.
COMMANDS = {
    "model": ["model", "chain.csv"],
    "schedule": ["schedule", "1f1b", "-K", "2", "-M", "2"],
    "generators": ["schedule", "--list"],
    "run": ["run", "plan.json", "--backend", "synthetic", "--steps", "2"],
    "plans": ["compare", "plan.json", "gpipe.json"],
    "kernels": ["model", "MODELS/gpt2-mini.json", "--kernels", "--gpu", "h100"],
    "schedules": ["schedule", "1f1b", "zb-v", "-K", "4", "-M", "8", "--uniform",
                  "F=1ms,I=1ms,W=1ms,latency=0s", "--svg", "both.svg"],
    "simulate": ["simulate", "plan.json", "-o", "simulated"],
    "explain": ["explain", "plan.json", "--plans", "changed"],
    "sweep": ["sweep", "chain.csv", "-K", "1,2", "-M", "4", "--explain", "-o", "sweep.json"],
    "compare": ["compare", "out/predicted.json", "out/measured.json", "--svg", "compared.svg"],
    "fits": ["fits", "plan.json", "--memory-limit", "1 GiB"],
    "reproduce": ["reproduce", "schedule-formulas"],
    "reports": ["reports", "reported", "-o", "index.html"],
}
WRITERS = {  # with what they write, and print JSON all the same
    "plan": ["plan", "chain.csv", "-K", "2", "-M", "4", "-o", "made.json"],
    "written": ["schedule", "1f1b", "-K", "2", "-M", "4", "--csv", "mine.csv", "--svg",
                 "mine.svg"],
    "page": ["page", "plan.json", "-o", "page.html"],
    "run into": ["run", "plan.json", "--backend", "synthetic", "--steps", "2", "-o", "out"],
    "calibrate": ["calibrate", "--measured", "gpt.json=1s", "-o", "costs.json"],
    "export": ["export", "gpt.json", "--to", "torch", "-o", "exported"],
}


def run(words, *more):
    words = [word.replace("MODELS", str(source / "tools/examples/models")) for word in words]
    return subprocess.run([weir, *more, *words], capture_output=True, text=True, timeout=120)


def prepare():
    pathlib.Path("chain.csv").write_text(CHAIN)
    gpt = source / "tools/examples/models/gpt2-mini.json"
    for words in (["plan", "chain.csv", "-K", "2", "-M", "4", "-o", "plan.json"],
                  ["plan", "chain.csv", "-K", "4", "-M", "8", "--schedule", "gpipe", "-o",
                   "gpipe.json"],
                  ["plan", str(gpt), "-K", "2", "-M", "4", "-o", "gpt.json"],
                  ["simulate", "plan.json", "-o", "out"],
                  ["run", "plan.json", "--backend", "synthetic", "--steps", "2", "-o", "out"],
                  ["sweep", "chain.csv", "-K", "2", "-M", "4", "--report", "reported/r.html"]):
        pathlib.Path("reported").mkdir(exist_ok=True)
        done = run(words, "-q")
        assert done.returncode == 0, (words, done.stderr)


def is_number(cell):
    return re.fullmatch(r"[-+]?(\d+(\.\d*)?|\.\d+)(e[-+]?\d+)?", cell) is not None


def as_csv():
    formulas = 0
    for name, words in COMMANDS.items():
        done = run(words, "-q", "--format", "csv")
        assert done.returncode == 0, (name, done.stderr)
        tables = [list(csv.reader(part.splitlines())) for part in done.stdout.split("\n\n")]
        assert len(tables[0]) > 1, (name, done.stdout)
        for head, *rows in tables:
            for row in rows:
                assert len(row) == len(head), (name, head, row)
                for cell in row:
                    # A spreadsheet takes what begins so for a formula.
                    assert is_number(cell) or cell[:1] not in tuple("=+-@\t\r"), (name, row)
                    formulas += FORMULA in cell
            for column, title in enumerate(head):
                cells = [row[column] for row in rows if row[column]]
                if cells and all(map(UNITS.fullmatch, cells)):
                    raise AssertionError(f"{name}: {title}: units in cells: {cells[:3]}")
    assert formulas > 0
    for name in ("plan", "page", "export"):
        done = run(WRITERS[name], "--format", "csv")
        assert (done.returncode, done.stdout) == (2, ""), (name, done)
        assert done.stderr == f"weir: --format csv: weir {name} prints no table\n", done.stderr
    said = run(["schedule", "1f1b", "-K", "2", "-M", "2", "--csv", "-"], "-q", "--format", "csv")
    assert said.stdout.startswith("0F0,0F1,"), said


def first_table(words):
    done = run(words, "-q", "--format", "csv")
    return list(csv.DictReader(done.stdout.split("\n\n")[0].splitlines()))


def as_exact():
    """Each number of CSV is JSON's own, to the last bit."""
    def same(words, column, expected, scale=1):
        cells = [row[column] for row in first_table(words)]
        assert [float(cell) for cell in cells] == [scale * one for one in expected], (column, cells)

    def told(words):
        return json.loads(run(words, "-q", "--json").stdout)

    mini = ["MODELS/gpt2-mini.json"]
    simulate = ["simulate", "gpt.json", "--cluster", "dgx-h100"]
    forecast = told(simulate)
    ranks = forecast["ranks"]
    same(simulate, "busy [s]", [rank["busy_s"] for rank in ranks])
    for cause in ("fill", "drain", "imbalance", "host", "optimizer"):
        same(simulate, f"{cause} [s]", [rank["idle_s"][cause] for rank in ranks])
    same(simulate, "peak memory [bytes]", [rank["peak_memory_bytes"] for rank in ranks])
    sweep = ["sweep", *mini, "--global-batch-size", "8", "-K", "1,2", "--cluster", "dgx-h100"]
    plans = told(sweep)["plans"]
    forecasts = [plan["forecast"] for plan in plans]
    same(sweep, "predicted [s]", [f["step_time_s"] for f in forecasts])
    same(sweep, "peak memory [bytes]",
         [max(rank["peak_memory_bytes"] for rank in f["ranks"]) for f in forecasts])
    same(sweep, "bubble p [%]", [f["bubble_fraction"] for f in forecasts], 100)
    same(sweep, "device-hours/1e9 tokens",
         [f["training_cost"]["billion_tokens"]["gpu_hours"] for f in forecasts])
    model = ["model", *mini]
    layers = told(model)["layers"]
    same(model, "FLOP forward", [layer["flops_forward"] for layer in layers])
    same(model, "activations [bytes]", [layer["activation_bytes"] for layer in layers])
    same(model, "boundary [bytes]", [layer["boundary_bytes"] for layer in layers])
    both = told(COMMANDS["plans"])
    rows = {row["what"]: row for row in first_table(COMMANDS["plans"])}
    for column, at in (("first plan", 0), ("second plan", 1)):
        of = {what.split(" (")[0]: row[column] for what, row in rows.items()}
        assert float(of["step time"]) == both["step_time_s"][at], rows
        assert float(of["peak memory [bytes]"]) == both["peak_memory_bytes"][at], rows
        assert float(of["bubble [%]"]) == 100 * both["bubble_fraction"][at], rows
    assert [rows["schedule"][key] for key in ("first plan", "second plan")] == ["1f1b", "gpipe"]
    assert "from where to where" not in first_table(COMMANDS["explain"])[0]
    steps = first_table(COMMANDS["run"])
    assert len(steps) >= 2 and all(float(step["time [s]"]) > 0 for step in steps), steps


def as_json():
    for name, words in {**COMMANDS, **WRITERS}.items():
        done = run(words, "-q", "--json")
        assert done.returncode == 0, (name, done.stderr)
        assert json.loads(done.stdout), name
        for option in ("-o", "--svg", "--csv", "--plans"):
            if option in words:
                assert pathlib.Path(words[words.index(option) + 1]).exists(), (name, option)
    timed = json.loads(run(["schedule", "1f1b", "-K", "2", "-M", "2", "--uniform",
                            "F=1ms,I=1ms,W=1ms,latency=0s"], "--json").stdout)
    # Rank 1: F0 from 1 to 2 ms, then its B of 2 ms.
    on_one = [(a["action"], a["start_s"], a["end_s"]) for a in timed["timeline"] if a["rank"] == 1]
    assert on_one[:2] == [("1F0", 0.001, 0.002), ("1B0", 0.002, 0.004)], on_one


def quiet():
    """What is noted without -q is not there with it; an error is, in one line."""
    noted = 0
    for name, words in {**COMMANDS, **WRITERS}.items():
        noted += bool(run(words).stderr)
        done = run(words, "-q")
        assert (done.returncode, done.stderr) == (0, ""), (name, done.stderr)
    assert noted >= 3, noted
    done = run(["simulate", "none.json"], "-q")
    assert done.returncode == 3 and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("weir: none.json: "), done.stderr


def nobody_reads():
    """A pipe whose reader has gone before the first byte: the end is SIGPIPE's, and silent, in
    every format, of help and of completions."""
    for words in ([*COMMANDS["model"]], ["--json", *COMMANDS["simulate"]],
                  ["--format", "csv", *COMMANDS["sweep"]], ["--help"], ["help", "schedules"],
                  ["--completion", "bash"], ["-q", *WRITERS["written"]]):
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run([weir, "-q", *words], stdout=writing, stderr=subprocess.PIPE,
                              text=True, timeout=120)
        os.close(writing)
        assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, ""), (words, done)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    prepare()
    for part in (as_csv, as_exact, as_json, quiet, nobody_reads):
        part()
print(f"streams: {len(COMMANDS)} commands of tables, {len(WRITERS)} that write")
