#!/usr/bin/env python3
"""Ranks of torch.distributed without torchrun, whose start may stand still: processes that meet
in a file. One that is not done in time writes where each of its threads stands, and all end.

As a program it is one of them: torch_processes.py MEETING LIMIT_S SCRIPT ARGUMENT..."""
# SPDX-License-Identifier: Apache-2.0
import contextlib
import datetime
import faulthandler
import functools
import os
import pathlib
import runpy
import subprocess
import sys
import tempfile
import time

GRACE_S = 5  # for the others once one has ended badly, to write what they saw of it


def run_ranks(script, *arguments, ranks, limit_s=240):
    """What SCRIPT's ranks printed, rank 0's first. It runs as under torchrun, with RANK, LOCAL_RANK
    and WORLD_SIZE; a rank that fails or takes longer is an AssertionError with all it said."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as files:
        said = [(pathlib.Path(folder) / f"{rank}.out", pathlib.Path(folder) / f"{rank}.err")
                for rank in range(ranks)]
        command = [sys.executable, __file__, f"{folder}/meeting", str(limit_s), script, *arguments]
        processes = []
        for rank, (out, error) in enumerate(said):
            # Loopback by name: otherwise gloo asks the network for the address of this host.
            its = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "OMP_NUM_THREADS": 1,
                   "GLOO_SOCKET_IFNAME": "lo"}
            processes.append(subprocess.Popen(
                list(map(str, command)), env=os.environ | {key: str(its[key]) for key in its},
                stdin=subprocess.DEVNULL, stdout=files.enter_context(out.open("w")),
                stderr=files.enter_context(error.open("w"))))
        wait_for(processes, limit_s + GRACE_S)
        codes = [process.returncode for process in processes]
        assert not any(codes), "\n".join(
            f"rank {rank} ended with {code}:\n{out.read_text()}{error.read_text()}"
            for rank, (code, (out, error)) in enumerate(zip(codes, said)))
        return "".join(out.read_text() for out, _ in said)


def wait_for(processes, limit_s):
    """Until all have ended, or one badly and the others had their grace; none is left behind."""
    until = time.monotonic() + limit_s
    try:
        while any(process.poll() is None for process in processes) and time.monotonic() < until:
            if any(process.poll() for process in processes):
                until = min(until, time.monotonic() + GRACE_S)
            time.sleep(0.05)
    finally:
        for process in processes:
            process.kill()
            process.wait()


def be_rank(meeting, limit_s, script, *arguments):
    """SCRIPT as it is, but that its process group meets in the file."""
    faulthandler.dump_traceback_later(float(limit_s), exit=True)
    import torch.distributed as dist
    dist.init_process_group = functools.partial(
        dist.init_process_group, init_method=f"file://{meeting}", rank=int(os.environ["RANK"]),
        world_size=int(os.environ["WORLD_SIZE"]),
        timeout=datetime.timedelta(seconds=float(limit_s)))
    sys.argv = [script, *arguments]
    sys.path[0] = str(pathlib.Path(script).parent)
    runpy.run_path(script, run_name="__main__")
    faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    be_rank(*sys.argv[1:])
