#!/usr/bin/env python3
"""What grows with what it is given, grows near-linearly: twice as much costs less than three times
the processor time, for schedules of many ranks and of many micro-batches, read from CSV and proved,
and for plans and sweeps of many layers.
Usage: scaling_test.py SOURCE_DIR WEIR"""
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import subprocess
import sys
import tempfile

weir = os.path.abspath(sys.argv[2])
MOST = 3  # times, for twice as much
TRIES = 3  # of which the best counts: others use this machine, too
faults = []


def processor_seconds(line):
    with subprocess.Popen([weir, "-q", *line.split()], stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{line}: ended with {process.returncode}")
    return used.ru_utime + used.ru_stime


def one_forward_one_backward(ranks, microbatches):
    """As CSV, a row a rank."""
    rows = []
    for rank in range(ranks):
        before = min(microbatches, ranks - 1 - rank)  # forwards ahead of the first backward
        row = [f"{rank}F{m}" for m in range(before)]
        for m in range(microbatches):
            row += [f"{rank}F{m + before}"] if m + before < microbatches else []
            row.append(f"{rank}B{m}")
        rows.append(",".join(row) + "\n")
    return "".join(rows)


def doubled(what, line, sizes):
    """`line` has a place for the size."""
    best = None
    for _ in range(TRIES):
        once, twice = (processor_seconds(line.format(size)) for size in sizes)
        best = min(best or twice / once, twice / once)
        if best < MOST:
            break
    print(f"{what}: {sizes[0]} {once:.2f} s, {sizes[1]} {twice:.2f} s, {best:.1f} times",
          flush=True)
    if best >= MOST:
        faults.append(what)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    for ranks in (15_000, 30_000):
        pathlib.Path(f"ranks-{ranks}.csv").write_text(one_forward_one_backward(ranks, 2))
    for microbatches in (20_000, 40_000):
        pathlib.Path(f"microbatches-{microbatches}.csv").write_text(
            one_forward_one_backward(4, microbatches))
    doubled("a CSV of many ranks", "--json schedule ranks-{}.csv", (15_000, 30_000))
    doubled("a CSV of many micro-batches", "--json schedule microbatches-{}.csv",
            (20_000, 40_000))
    doubled("a proof of many ranks", "schedule 1f1b --prove --grid K={},M=16", (512, 1024))
    doubled("a proof of many micro-batches", "schedule 1f1b --prove --grid K=16,M={}",
            (1024, 2048))

    for layers in (20_000, 40_000):
        pathlib.Path(f"layers-{layers}.json").write_text(
            f'{{"model_type":"gpt2","n_embd":64,"n_head":4,"n_layer":{layers},"vocab_size":512,'
            '"n_positions":128}')
    doubled("a plan of many layers", "plan layers-{}.json -K 64 -M 64 --cluster dgx-a100 -o p.json",
            (20_000, 40_000))
    # Few stages of many layers each: what a move of the partition's descent prices.
    doubled("a plan of many layers on few ranks",
            "plan layers-{}.json -K 4 -M 64 --cluster dgx-a100 -o p.json", (20_000, 40_000))
    doubled("a sweep of many layers",
            "sweep layers-{}.json --cluster dgx-a100 --pp 64 --vpp 1 --tp 1 --cp 1 --dp 1 --zero 0 "
            "--schedule 1f1b,gpipe --recompute none,full --global-batch-size 64 --top 3",
            (20_000, 40_000))

print("\n".join(f"grows too fast: {fault}" for fault in faults) or "scaling: near-linear")
sys.exit(1 if faults else 0)
