# Messages between ranks and collectives of all of them: measured, and as a latency and a bandwidth
# or as the table that nccl-tests prints.
# SPDX-License-Identifier: Apache-2.0
import os
import platform
import statistics

import torch
import torch.distributed as dist

from weir.torch_clock import WARM_UP, Clock, mean_over_ranks


SIZES = [4 ** power for power in range(5, 13)]  # bytes of all-reduces: 1 KiB to 16 MiB


def measure_messages(device, shapes, dtype, repetitions=15):
    """(bytes, seconds) of one message between ranks 0 and 1, half of a round trip."""
    rank, clock, found = dist.get_rank(), Clock(device), []
    for shape in [(64,), *shapes]:
        tensor, times = torch.ones(shape, dtype=dtype, device=device), []
        for _ in range(WARM_UP + repetitions if rank < 2 else 0):
            begin = clock.mark()
            for sender in (0, 1):
                send = rank == sender
                operation = dist.P2POp(dist.isend if send else dist.irecv, tensor, 1 - rank)
                for work in dist.batch_isend_irecv([operation]):
                    work.wait()
            times.append(clock.between(begin, clock.mark()) / 2)
        dist.barrier()
        if times:
            found.append((tensor.nbytes, statistics.median(times[WARM_UP:])))
    return found


def line_through(points):
    """(latency, bandwidth) by least squares of relative errors; bandwidth 0: size adds nothing."""
    weight = [1 / seconds ** 2 for _, seconds in points]
    total = sum(weight)
    x = sum(w * size for w, (size, _) in zip(weight, points)) / total
    y = sum(w * seconds for w, (_, seconds) in zip(weight, points)) / total
    square = sum(w * (size - x) ** 2 for w, (size, _) in zip(weight, points))
    slope = sum(w * (size - x) * (seconds - y)
                for w, (size, seconds) in zip(weight, points)) / square
    if slope <= 0:
        return y, 0.0
    return max(0.0, y - slope * x), 1 / slope


def measure_all_reduce(device, numbers, dtype, ranks):
    """(bytes, seconds) of an all-reduce of so many numbers over a group's ranks."""
    clock, times = Clock(device), []
    tensor = torch.ones(numbers, dtype=dtype, device=device)
    for _ in range(WARM_UP + 9):
        dist.barrier(ranks)
        begin = clock.mark()
        dist.all_reduce(tensor, group=ranks)
        times.append(clock.between(begin, clock.mark()))
    return tensor.nbytes, mean_over_ranks(statistics.median(times[WARM_UP:]), ranks)


def measure_collectives(device, dtype):
    """All-reduces over all ranks, from those that are all latency to those that are all rate."""
    return [measure_all_reduce(device, size // dtype.itemsize, dtype, None) for size in SIZES]


TYPE_NAMES = {torch.float32: "float", torch.bfloat16: "bfloat16", torch.float16: "half"}


def nccl_test(rows, ranks, dtype, machine):
    """The table of nccl-tests' all_reduce_perf, which `weir calibrate --nccl` reads."""
    width, name = dtype.itemsize, TYPE_NAMES[dtype]
    host = platform.node() or "here"
    text = "# Collective test starting: all_reduce_perf\n"
    for rank in range(ranks):
        text += f"#  Rank {rank:2d} Group  0 Pid {os.getpid()} on {host} device {rank:2d} [0] "
        text += f"{machine}\n"
    text += "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
    text += "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)\n"
    for size, seconds in rows:
        rate = size / seconds / 1e9
        text += (f"{size:12d} {size // width:12d} {name:>9} {'sum':>7} {-1:>6} "
                 f"{seconds * 1e6:9.2f} {rate:7.3f} {rate * 2 * (ranks - 1) / ranks:7.3f}      0\n")
    return text
