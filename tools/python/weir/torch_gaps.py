# What PyTorch's pipeline runtime takes beside the layers: the time before each action, and at a
# step's end.
# SPDX-License-Identifier: Apache-2.0
import pathlib
import statistics

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

from weir.torch_clock import WARM_UP, Clock


def step_of_nothing(device, microbatches, folder, repetitions=11):
    """Seconds of a GPipe step of 8 by 8 products, the slowest rank's."""
    rank, ranks, clock = dist.get_rank(), dist.get_world_size(), Clock(device)
    stage = PipelineStage(torch.nn.Linear(8, 8).to(device), rank, ranks, device)
    schedule = _PipelineScheduleRuntime([stage], n_microbatches=microbatches,
                                        loss_fn=lambda output, target: output.mean())
    order = pathlib.Path(folder, f"{rank}-{microbatches}.csv")
    order.write_text("".join(
        ",".join(f"{s}{kind}{m}" for kind in "FB" for m in range(microbatches)) + "\n"
        for s in range(ranks)))
    schedule._load_csv(str(order), format="compute_only")
    x, times = torch.ones(microbatches, 8, device=device), []
    for _ in range(WARM_UP + repetitions):
        dist.barrier()
        begin, losses = clock.mark(), []
        schedule.step(*([x] if rank == 0 else []),
                      **({"target": x, "losses": losses} if rank == ranks - 1 else {}))
        seconds = torch.tensor(clock.between(begin, clock.mark()), device=device)
        dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
        times.append(seconds.item())
    return statistics.median(times[WARM_UP:])


def measure_gaps(device, latency, folder):
    """(seconds before every action, seconds at a step's end), of the runtime itself: a step of M
    micro-batches that compute nothing takes 2 (M + K - 1) gaps, 2 (K - 1) messages, and the end."""
    few, many, ranks = 2, 10, dist.get_world_size()
    short = step_of_nothing(device, few, folder)
    long = step_of_nothing(device, many, folder)
    gap = max(0.0, (long - short) / (many - few) / 2)
    return gap, max(0.0, short - 2 * (few + ranks - 1) * gap - 2 * (ranks - 1) * latency)
