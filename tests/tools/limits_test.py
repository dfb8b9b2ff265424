#!/usr/bin/env python3
"""Every size has a bound and every file a border: what lies beyond it is refused at once, in one
short line that names the file, the key and what was expected, with exit code 2 or 3.
Usage: limits_test.py SOURCE_DIR WEIR"""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

source, weir = (os.path.abspath(path) for path in sys.argv[1:3])
TINY = {"model_type": "gpt2", "n_embd": 16, "n_head": 2, "n_layer": 3, "vocab_size": 32,
        "n_positions": 8}
TIMES = "name,kind,parameters,f_ms,i_ms,w_ms,activation_bytes,boundary_bytes,count\n"
NODE = ("node{} -- {} -- forward_compute_time=1.000, backward_compute_time=2.000, "
        "activation_size=4.0, parameter_size=4.000\n")
MEMORY = 1 << 30  # of addresses: what is refused has not been made
faults = []


def run(line):
    return subprocess.run(
        [weir, "-q", *line.split()], capture_output=True, text=True, timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)))


def refused(line, code, *parts):
    done = run(line)
    lines = done.stderr.splitlines()
    if (done.returncode != code or len(lines) != 1 or len(done.stderr) > 1200
            or not all(part in done.stderr for part in parts)):
        faults.append(f"weir {line}: {done.returncode}, expected {code} with {parts}: "
                      f"{done.stderr[:600] or done.stdout[:200]!r}")


def write(name, text):
    pathlib.Path(name).write_text(text)


def schedules():
    """K v M is bounded, and nothing is made of a number before the file has actions for it."""
    for line in ("schedule gpipe -K 1024 -M 8192", "schedule 1f1b -K 1024 -M 4097",
                 "plan times.csv -K 5 -M 1048576 -o large.json"):
        refused(line, 2, "at most 4194304")
    refused("plan tiny.json -K 2 -M 1048577 -o large.json", 2, "--microbatches", "1 to 1048576")
    plan = json.loads(pathlib.Path("plan.json").read_text())
    write("large.json", json.dumps({**plan, "microbatches": 1 << 40}))
    refused("simulate large.json", 3, "large.json: microbatches: ")
    # Forty forecasts of a million operations: minutes, which nobody was told.
    assert run("plan times.csv -K 2 -M 131073 -o long.json").returncode == 0
    refused("explain long.json", 3, "long.json: microbatches: 131073 on 2 stages", "at most 131072")
    # A plan for more devices than its cluster has.
    refused("plan tiny.json -K 3 --tp 2 --dp 16 -M 16 --cluster dgx-h100 --dtype bf16 --attention "
            "fused -o large.json", 4, "needs 96 devices, dgx-h100 has 64")
    write("cells.csv", "0F1048575,0B1048575\n")
    refused("schedule cells.csv", 3, "cells.csv: 1 stages and 1048576 micro-batches need at least "
            "1048576 actions, found 2")
    write("stage.csv", "0F0,0B0,65536F0\n")
    refused("schedule stage.csv", 3, "stage.csv: row 1, column 3", "stages end at 65536")
    # 900 kB, which once asked for 64 GiB: so many stages, and the last names a large micro-batch.
    rows = [f"{stage}F0,{stage}B0\n" for stage in range(40_000)]
    write("rows.csv", "".join(rows) + "40000F1048575,40000B1048575\n")
    refused("schedule rows.csv", 3, "rows.csv: 40001 stages and 1048576 micro-batches need at "
            "least 41944088576 actions, found 80002")


def models():
    write("many.csv", TIMES + "l,x,10,1,1,1,64,64,100001\n")
    refused("model many.csv", 3, "many.csv: l: more than 100000 layers")
    write("deep.json", json.dumps({**TINY, "n_layer": 2_000_000_000}))
    refused("model deep.json", 3, "deep.json", "layer")
    for key, column in (("parameters", 2), ("activation_bytes", 6), ("boundary_bytes", 7)):
        cells = ["l", "x", "10", "1", "1", "1", "64", "64", "4"]
        cells[column] = str(2**63 - 1)
        write("bytes.csv", TIMES + ",".join(cells) + "\n")
        refused("model bytes.csv", 3, f"bytes.csv: line 2: {key}: ")
    write("nested.json", "[" * 65 + "]" * 65)
    refused("model nested.json", 3, "nested.json")


def times():
    """Beyond 63 bits of nanoseconds there is no time, and none comes out negative."""
    refused("schedule 1f1b -K 4 -M 4 --uniform F=1e9s,I=1e9s,W=1e9s", 3, "at most 9e+09")
    write("long.csv", TIMES + "l,x,10,9e8,9e8,9e8,64,64,4\n")
    made = run("plan long.csv -K 2 -M 100000 -o long.json")
    if made.returncode == 0:
        refused("simulate long.json", 3, " s, at most 9e+09")
    elif made.returncode != 3 or len(made.stderr.splitlines()) != 1:
        faults.append(f"times: {made.returncode} {made.stderr}")
    write("ms.csv", TIMES + "l,x,10,1,1e15,1,64,64,4\n")
    refused("model ms.csv", 3, "ms.csv: line 2: i_ms: expected at most 1000000000 ms")
    for value in ("nan", "inf", "-1"):
        write("ms.csv", TIMES + f"l,x,10,1,{value},1,64,64,4\n")
        refused("model ms.csv", 3, "ms.csv: line 2: i_ms: ")


def graphs():
    """A PipeDream graph whose edge leads into a node of input."""
    write("graph.txt", NODE.format(1, "Input0") + NODE.format(2, "Linear(3)")
          + "\tnode2 -- node1\n")
    refused("model graph.txt", 3, "graph.txt: ")


def costs():
    """What costs do not know is said with their file's name."""
    file = pathlib.Path(source) / "tests/fuzz/seeds/costs/measured.json"
    pathlib.Path("mine.json").write_bytes(file.read_bytes())
    write("broad.json", json.dumps({**TINY, "n_embd": 32}))
    assert run("plan broad.json -K 2 -M 4 -o broad-plan.json").returncode == 0
    for line in ("simulate broad-plan.json", "sweep broad.json -K 2 -M 4"):
        refused(f"{line} --costs mine.json", 3, "mine.json: layers: nothing is known of layer")


def headers():
    """TOML whose headers and keys toml++ takes for granted."""
    for header in ("[/job]", "[a.]", "[.a]", "[a..b]", "[[a]", "[]", "[ ]", "[a]b", "[\"a]",
                   "\x00", "a.", "a = {b", "[[[a]]]", "[a\n]"):
        write("job.toml", header + "\n")
        refused("plan job.toml --from torchtitan -o job.json", 3, "job.toml: ")


def messages():
    """What is quoted may be long; the line that quotes it is not."""
    write("layers.csv", TIMES + "l" * 4000 + ",x,y,1,1,1,64,64,4\n")
    refused("model layers.csv", 3, "layers.csv: line 2")
    refused("model " + "n" * 200 + "/" + "m" * 200, 3, "cannot be read")
    refused("plan tiny.json --schedule " + "s" * 4000 + " -o s.json", 2)
    write("key.json", json.dumps({**TINY, "model_type": "m" * 4000}))
    refused("model key.json", 3, "key.json: ")


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    write("tiny.json", json.dumps(TINY))
    write("times.csv", TIMES + "l,x,10,1,1,1,64,64,8\n")
    assert run("plan tiny.json -K 2 -M 4 -o plan.json").returncode == 0
    for test in (schedules, models, times, graphs, costs, headers, messages):
        test()

print("\n".join(faults) or "limits: every one is kept and named")
sys.exit(1 if faults else 0)
