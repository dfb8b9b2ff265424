"""Measures what stages of a module pay beside their layers: messages of these bytes between two
processes of this machine, and the runtime's own gaps. weir.torch_model starts it as a process of
its own, since ranks begin anew from the main program.

    python -m weir.torch_link BYTES,...
"""
# SPDX-License-Identifier: Apache-2.0
import json
import pathlib
import subprocess
import sys
import tempfile

import weir
from weir import torch_ranks

NOTHING = {"latency_s": 0.0, "bandwidth_bytes_per_s": 0.0, "host_overhead_s": 0.0,
           "step_overhead_s": 0.0}


def between(device, sizes, given):
    """The link's latency and bandwidth, and the runtime's overheads: as given, which leaves these
    0, or measured; on a machine of one GPU there are no two ranks, and all are 0."""
    if given is not None:
        return {**NOTHING, **given}
    if device.type == "cuda":
        import torch

        if torch.cuda.device_count() < 2:
            return dict(NOTHING)
    done = subprocess.run(
        [sys.executable, "-m", "weir.torch_link", ",".join(map(str, sorted(set(sizes))))],
        capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        line = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        raise weir.RunFailed(f"weir.torch_link: {line}")
    return json.loads(done.stdout)


def measure(device, job):
    import torch
    import torch.distributed as dist
    from weir import torch_gaps, torch_messages

    shapes = [(max(64, size // 4),) for size in job["sizes"]]
    shapes += [(16 * max(shapes)[0],)]  # a line needs two sizes
    messages = torch_messages.measure_messages(device, shapes, torch.float32)
    line = [torch_messages.line_through(messages) if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(line, src=0)
    latency, bandwidth = line[0]
    gap, end = torch_gaps.measure_gaps(device, latency, job["folder"])
    if dist.get_rank() == 0:
        pathlib.Path(job["folder"], "found.json").write_text(json.dumps(
            {"latency_s": latency, "bandwidth_bytes_per_s": bandwidth, "host_overhead_s": gap,
             "step_overhead_s": end}))


def main():
    sizes = [int(word) for word in sys.argv[1].split(",")]
    with tempfile.TemporaryDirectory() as folder:
        torch_ranks.run_ranks(2, measure, {"sizes": sizes, "folder": folder}, limit_s=300)
        print(pathlib.Path(folder, "found.json").read_text())
    return 0


if __name__ == "__main__":
    torch_ranks.run_as_command(main)
