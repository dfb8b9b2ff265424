#!/usr/bin/env python3
"""Records the traces of this folder and cuts them down to what a reader needs of them.

Two ranks of PyTorch's pipelining over gloo on CPUs, a small perceptron a stage:

    torchrun --nproc-per-node 2 tests/traces/gloo/record.py gpipe FOLDER

writes FOLDER/gpipe-rank0.json and -rank1.json: of two steps the first, of its operators those
that no other encloses. Schedules: gpipe (ranges "Forward 3"), interleaved and zero-bubble (ranges
"PP:2F0"), 1f1b (no ranges).
"""

# SPDX-License-Identifier: Apache-2.0
import json
import pathlib
import sys

import torch
import torch.distributed as dist
from torch.distributed import pipelining
from torch.profiler import ProfilerActivity, profile, schedule

MICRO_BATCHES, WIDTH, ROWS = 4, 64, 8
SCHEDULES = {
    "gpipe": (pipelining.ScheduleGPipe, 1),
    "1f1b": (pipelining.Schedule1F1B, 1),
    "interleaved": (pipelining.ScheduleInterleaved1F1B, 2),
    "zero-bubble": (pipelining.ScheduleInterleavedZeroBubble, 2),
}
KEPT_KEYS = ("ph", "cat", "name", "pid", "tid", "ts", "dur")
KEPT_HEAD = ("schemaVersion", "deviceProperties", "distributedInfo", "baseTimeNanoseconds")


def cut(trace):
    """The first step's operators that no other encloses, and all its ranges."""
    events = [e for e in trace["traceEvents"] if e.get("cat") in ("cpu_op", "user_annotation")]
    steps = sorted((e for e in events if e["name"].startswith("ProfilerStep#")), key=start)
    begin, end = start(steps[0]), start(steps[0]) + steps[0]["dur"]
    kept, open_until = [], {}
    for event in sorted(events, key=lambda e: (start(e), -e["dur"])):
        if not begin <= start(event) <= end:
            continue
        if event["cat"] == "cpu_op":
            if start(event) < open_until.get(event["tid"], 0):
                continue
            open_until[event["tid"]] = start(event) + event["dur"]
        kept.append({key: event[key] for key in KEPT_KEYS})
    return {key: trace[key] for key in KEPT_HEAD} | {"traceEvents": kept}


def start(event):
    return event["ts"]


def write(trace, file):
    """One event a line."""
    head = {key: value for key, value in trace.items() if key != "traceEvents"}
    lines = ",\n".join(json.dumps(event) for event in trace["traceEvents"])
    file.write_text(json.dumps(head)[:-1] + ', "traceEvents": [\n' + lines + "\n]}\n")


def perceptron(stage):
    torch.manual_seed(stage)
    linear = torch.nn.Linear
    return torch.nn.Sequential(
        linear(WIDTH, 4 * WIDTH), torch.nn.GELU(), linear(4 * WIDTH, WIDTH)
    )


def main(name, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    kind, chunks = SCHEDULES[name]
    stages = [
        pipelining.PipelineStage(perceptron(s), s, ranks * chunks, torch.device("cpu"))
        for s in range(rank, ranks * chunks, ranks)
    ]
    order = kind(
        stages if chunks > 1 else stages[0], MICRO_BATCHES, loss_fn=torch.nn.functional.mse_loss
    )
    optimizer = torch.optim.Adam([p for s in stages for p in s.submod.parameters()])
    inputs = torch.randn(MICRO_BATCHES * ROWS, WIDTH)

    def step():
        optimizer.zero_grad()
        order.step(*([inputs] if rank == 0 else []), target=inputs if rank == ranks - 1 else None)
        optimizer.step()

    file = pathlib.Path(folder) / f"{name}-rank{rank}.json"
    step()
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=1, active=2, repeat=1),
        on_trace_ready=lambda found: found.export_chrome_trace(str(file)),
    ) as profiler:
        for _ in range(3):
            step()
            profiler.step()
    write(cut(json.loads(file.read_text())), file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
