# Time on a device, and what many measurements of it come to, over repetitions and ranks.
# SPDX-License-Identifier: Apache-2.0
import statistics
import time

import torch
import torch.distributed as dist

WARM_UP = 2  # repetitions before those that count


class Clock:
    """Marks in the work of a device: the host's clock, or events on a GPU's stream."""

    def __init__(self, device):
        self.cuda = device.type == "cuda"

    def mark(self):
        if not self.cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, begin, end):
        if not self.cuda:
            return end - begin
        end.synchronize()
        return begin.elapsed_time(end) / 1e3


def spread(values):
    """Interquartile range over the median."""
    low, middle, high = statistics.quantiles(values, n=4)
    return (high - low) / middle if middle > 0 else 0.0


def mean_over_ranks(value, ranks):
    values = [None] * dist.get_world_size(ranks)
    dist.all_gather_object(values, value, group=ranks)
    return statistics.mean(values)
