#!/usr/bin/env python3
"""How much memory a step leaves behind: the highest resident memory of a long run beside that of
one a tenth as long, over the steps between. A step that is not traced leaves its record; one that
is leaves its spans, too.
Usage: growth_test.py SOURCE_DIR WEIR"""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import subprocess
import sys

import place

RECORD = 64  # bytes: loss, time and allocations, and as much again where a vector doubles
# Of a traced step each operation has a span of some 100 bytes, doubled where the vector grows.
SPAN = 256
weir = os.path.abspath(sys.argv[2])
faults = []


def peak_of(folder, line):
    """Highest resident memory, bytes."""
    process = subprocess.Popen([weir, "-q", *line.split()], cwd=folder,
                               stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{line}: ended with {status}")
    return used.ru_maxrss * 1024


def growth(folder, what, line, steps, most):
    """`line` has a place for the number of steps."""
    few = steps // 10
    first = peak_of(folder, line.format(few))
    last = peak_of(folder, line.format(steps))
    each = (last - first) / (steps - few)
    print(f"{what}: {each:.1f} bytes a step over {steps} steps ({last / 2**20:.1f} MiB at most), "
          f"{most} allowed", flush=True)
    # The allocator takes some pages more or less from run to run: a MiB either way is no growth.
    if last - first > most * (steps - few) + (1 << 20):
        faults.append(what)


with place.temporary_folder() as name:
    root = pathlib.Path(name)
    (root / "tiny.json").write_text(json.dumps(
        {"model_type": "gpt2", "n_embd": 32, "n_head": 2, "n_layer": 3, "vocab_size": 128,
         "n_positions": 8}))
    (root / "times.csv").write_text(
        "name,kind,parameters,f_ms,i_ms,w_ms,activation_bytes,boundary_bytes,count\n"
        "l,x,10,0.000001,0.000001,0.000001,64,64,4\n")
    for model, plan in (("tiny.json", "real.json"), ("times.csv", "timed.json")):
        subprocess.run([weir, "plan", model, "-K", "2", "-M", "2", "-o", plan], cwd=root,
                       check=True, capture_output=True)
    peak_of(root, "run real.json --warmup 0 --steps 1 -o one")
    spans = sum(event["ph"] == "X" for event in
                json.loads((root / "one" / "measured.json").read_text())["traceEvents"])
    timed = "run timed.json --backend synthetic"
    growth(root, "synthetic", timed + " --warmup {0} --steps {0}", 20_000, RECORD)
    growth(root, "synthetic, traced", timed + " --warmup 0 --steps {}", 2_000,
           RECORD + SPAN * spans)
    growth(root, "real", "run real.json --warmup {0} --steps {0}", 1_000, RECORD)
    growth(root, "real, traced", "run real.json --warmup 0 --steps {}", 1_000,
           RECORD + SPAN * spans)
sys.exit(1 if faults else 0)
