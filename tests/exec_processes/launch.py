"""Starts `weir` in several processes by mpirun."""
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import time

LAUNCHERS = ("OMPI_", "PMI", "SLURM_", "RANK", "WORLD_SIZE")


class Ended:
    """How they ended: exit codes by process (mpirun: its own alone), output of all, seconds."""

    def __init__(self, codes, out, err, seconds):
        self.codes, self.out, self.err, self.seconds = codes, out, err, seconds
        self.lines = [
            line
            for line in err.splitlines()
            if line.startswith("weir: ")
            and "oversubscribed" not in line
            and "the machine was disturbed" not in line
        ]

    def __repr__(self):
        return f"codes {self.codes} after {self.seconds:.1f} s: {self.err}"


def wait(started, begun):
    texts = [process.communicate(timeout=60) for process in started]
    return Ended([process.returncode for process in started], "".join(out for out, _ in texts),
                 "".join(err for _, err in texts), time.monotonic() - begun)


def popen(command, folder, extra=None):
    environment = {
        name: value
        for name, value in os.environ.items()
        if extra is None or not name.startswith(LAUNCHERS)
    }
    environment.update(extra or {})
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


class ByMpi:
    def __init__(self, mpirun, weir):
        self.mpirun, self.weir = mpirun, weir

    def start(self, folder, count, arguments, first="", on=1):
        """Runs `weir ARGUMENTS` in each process; in process `on` the shell line `first` comes
        before."""
        script = folder / "rank.sh"
        rank = "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"
        script.write_text(
            f'#!/bin/sh\nif [ "{rank}" = {on} ]; then :; {first}\nfi\n'
            f'exec "{self.weir}" {arguments}\n'
        )
        script.chmod(0o755)
        begun = time.monotonic()
        return wait([popen([self.mpirun, "-n", str(count), str(script)], folder)], begun)
