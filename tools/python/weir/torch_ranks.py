# Ranks as processes of this machine that PyTorch's process groups join, for the modules that
# measure and run with it; and the one line by which they end where something is missing.
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import sys
import tempfile
import time

import weir

CODES = [(weir.UsageError, 2), (weir.InputError, 3), (weir.NoFeasiblePlan, 4),
         (weir.MissingComponent, 5), (weir.RunFailed, 6)]


def run_as_command(main):
    """Ends the process as the command `weir` does: bad input is one line and an exit code."""
    try:
        sys.exit(main())
    except weir.Error as error:
        print(f"weir: {error}", file=sys.stderr)
        sys.exit(next(code for kind, code in CODES if isinstance(error, kind)))


def require(*modules, package=None):
    """Throws MissingComponent where this Python lacks one of them, which are of the package of that
    name in Python's index, or of their own."""
    for name in modules:
        try:
            __import__(name)
        except ImportError:
            raise weir.MissingComponent(
                f"{package or name}: not in this Python ({sys.executable})") from None


def failure(error):
    """What a rank ended by: our own exceptions as what they are."""
    last = str(error).strip().splitlines()[-1]
    for kind, _ in CODES:
        of_kind = f"{kind.__module__}.{kind.__qualname__}: "
        if last.startswith(of_kind):
            return kind(last[len(of_kind):])
    return weir.RunFailed(f"rank {error.error_index}: {last}")


def join(rank, ranks, meeting, target, arguments, limit_s):
    """A new process's life: it joins the group, runs `target`, and leaves."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    import datetime

    import torch
    import torch.distributed as dist

    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(rank)
    else:
        torch.set_num_threads(1)  # a device is one core, however many ranks a job has
    device = torch.device("cuda", rank) if cuda else torch.device("cpu")
    dist.init_process_group("nccl" if cuda else "gloo", init_method=f"file://{meeting}",
                            rank=rank, world_size=ranks,
                            timeout=datetime.timedelta(seconds=limit_s))
    target(device, *arguments)
    dist.barrier()
    dist.destroy_process_group()


def run_ranks(ranks, target, *arguments, limit_s):
    """Runs target(device, *arguments) in so many processes. RunFailed where one of them fails, or
    they are not all done after so many seconds, at which they are ended."""
    import torch.multiprocessing

    until = time.monotonic() + limit_s
    with tempfile.TemporaryDirectory() as folder:
        meeting = pathlib.Path(folder, "ranks")
        running = torch.multiprocessing.start_processes(
            join, (ranks, str(meeting), target, arguments, limit_s), ranks, join=False,
            start_method="spawn")
        try:
            while not running.join(timeout=max(0.0, until - time.monotonic())):
                if time.monotonic() < until:
                    continue  # one of several is done
                for process in running.processes:
                    process.kill()
                raise weir.RunFailed(f"{ranks} ranks: not done after {limit_s:g} s")
        except (torch.multiprocessing.ProcessRaisedException,
                torch.multiprocessing.ProcessExitedException) as error:
            raise failure(error) from None


def default_ranks():
    """GPUs, or as many cores as this process may use, at most two."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.device_count()
    return min(2, len(os.sched_getaffinity(0)))
