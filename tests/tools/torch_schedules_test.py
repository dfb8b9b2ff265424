#!/usr/bin/env python3
"""Lowered schedules (compute_comms) both ways: all that PyTorch's own generators write is read,
proved and gives their compute actions again; what Weir writes is validated, simulated and run by
PyTorch over gloo, to the losses of PyTorch's own lowering. torch_schedules_test.py SOURCES WEIR"""
# SPDX-License-Identifier: Apache-2.0
import itertools
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import torch
    from torch.distributed.pipelining import schedules as pipelining
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

from torch_processes import run_ranks  # noqa: E402

WEIR = pathlib.Path(sys.argv[2]).resolve()
WITHOUT_TIME = ("UNSHARD", "RESHARD", "REDUCE_GRAD", "WAIT_REDUCE_GRAD")
# Ours, of two ranks: name, v, M.
OURS = [("gpipe", 1, 3), ("1f1b", 1, 4), ("interleaved-1f1b", 2, 4), ("zb-h1", 1, 4),
        ("zb-v", 2, 4), ("dualpipev", 2, 4)]


class Place:
    """What a generator asks of a stage."""

    def __init__(self, ranks, chunks):
        self.num_stages, self.group_size, self.group_rank = ranks * chunks, ranks, 0
        self.is_first = self.is_last = self.p2p_per_edge = False
        self.stage_index_to_group_rank, self.submod = {}, None


def made(kind, ranks, chunks, microbatches):
    stages = [Place(ranks, chunks) for _ in range(chunks)]
    try:
        return kind(stages, microbatches)
    except ValueError:
        return None  # a shape that this schedule has not


def theirs_are_read(folder):
    kinds = [pipelining.ScheduleLoopedBFS, pipelining.ScheduleInterleaved1F1B,
             pipelining.ScheduleInterleavedZeroBubble, pipelining.ScheduleZBVZeroBubble,
             pipelining.ScheduleDualPipeV]
    read = 0
    shapes = itertools.product(kinds, (2, 3, 4, 6), (1, 2, 3), (2, 3, 4, 6, 8, 12))
    for kind, ranks, chunks, microbatches in shapes:
        schedule = made(kind, ranks, chunks, microbatches)
        if schedule is None:
            continue
        file = folder / f"{kind.__name__}-{ranks}-{chunks}-{microbatches}.csv"
        schedule._dump_csv(file, format="compute_comms")
        done = subprocess.run([WEIR, "-q", "schedule", file, "--csv", "-", "--allow-reordered"],
                              capture_output=True, text=True)
        assert done.returncode == 0, (file, done.stderr)
        wanted = [",".join(map(str, filter(None, schedule.pipeline_order[rank])))
                  for rank in range(ranks)]
        assert done.stdout.split() == wanted, file
        read += 1
    assert read > 150, read
    print(f"{read} files of PyTorch's generators read and proved")


def place_of(name, ranks, stage):
    if name in ("zb-v", "dualpipev"):
        return min(stage, 2 * ranks - 1 - stage)
    return stage % ranks


def ours_run(folder):
    for name, chunks, microbatches in OURS:
        subprocess.run([WEIR, "-q", "schedule", name, "-K", "2", "-v", str(chunks), "-M",
                        str(microbatches), "--csv", folder / f"{name}.csv", "--csv-format",
                        "compute_comms"], check=True, capture_output=True)
    said = run_ranks(__file__, sys.argv[1], sys.argv[2], folder, ranks=2)
    assert said.count("ran ") == len(OURS), said


def simulated(schedule):
    """PyTorch's simulation knows no action without a message or a computation."""
    order = {rank: [a for a in row if a.computation_type.value not in WITHOUT_TIME]
             for rank, row in schedule.pipeline_order_with_comms.items()}
    pipelining._simulate_comms_compute(
        order, lambda stage: schedule.stage_index_to_group_rank[stage], schedule._num_stages)


def trained(name, chunks, microbatches, load):
    """Losses of two steps of a stack of linear layers, and the sum of all gradients here."""
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage
    ranks, rank = dist.get_world_size(), dist.get_rank()
    stages = []
    for index in range(ranks * chunks):
        if place_of(name, ranks, index) == rank:
            torch.manual_seed(index)
            stages.append(PipelineStage(torch.nn.Linear(6, 6), index, ranks * chunks,
                                        torch.device("cpu")))
    schedule = pipelining._PipelineScheduleRuntime(stages, microbatches,
                                                   loss_fn=torch.nn.functional.mse_loss)
    load(schedule)
    simulated(schedule)
    torch.manual_seed(99)
    given = torch.randn(microbatches * 2, 6)
    wanted = torch.randn(microbatches * 2, 6)
    weights = [w for stage in stages for w in stage.submod.parameters()]
    optimizer = torch.optim.SGD(weights, lr=0.1)
    seen = []
    for _ in range(2):
        optimizer.zero_grad()
        losses = []
        schedule.step(*([given] if any(s.is_first for s in stages) else []), target=wanted,
                      losses=losses)
        seen += [float(loss) for loss in losses] + [float(w.grad.norm()) for w in weights]
        optimizer.step()
    return seen


def worker(folder):
    import torch.distributed as dist
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for name, chunks, microbatches in OURS:
        file = folder / f"{name}.csv"
        ours = trained(name, chunks, microbatches,
                       lambda schedule: schedule._load_csv(file, format="compute_comms"))

        def lowered_there(schedule):
            order = {}
            for rank, row in enumerate(file.read_text().split()):
                actions = map(pipelining._Action.from_str, row.split(","))
                order[rank] = [action for action in actions if action.is_compute_op]
            schedule._prepare_schedule_with_comms(order)

        theirs = trained(name, chunks, microbatches, lowered_there)
        assert ours == theirs, (name, ours, theirs)
        if dist.get_rank() == 0:
            print(f"ran {name}")
    dist.destroy_process_group()


if "RANK" in os.environ:
    worker(pathlib.Path(sys.argv[3]))
else:
    with tempfile.TemporaryDirectory() as place:
        theirs_are_read(pathlib.Path(place))
        ours_run(pathlib.Path(place))
