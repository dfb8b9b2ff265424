#!/usr/bin/env python3
"""`weir run` under a launcher that gives its processes no MPI: one line says how to start them.
launcher_test.py WEIR"""
# SPDX-License-Identifier: Apache-2.0
import json
import pathlib
import sys
import tempfile
import time

from launch import popen, wait

weir = sys.argv[1]
faults = []


def run(folder, options, environment):
    command = [weir, "-q", "run", "k1.json", "--steps", "1", "--warmup", "0", *options]
    return wait([popen(command, folder, environment)], time.monotonic())


def expect(what, true):
    if not true:
        faults.append(what)
        print("FAILED:", what)


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    model = {
        "model_type": "gpt2",
        "n_embd": 32,
        "n_head": 2,
        "n_layer": 2,
        "vocab_size": 64,
        "n_positions": 16,
    }
    (folder / "model.json").write_text(json.dumps(model))
    wait([popen([weir, "plan", "model.json", "-K", "1", "-M", "2", "-o", "k1.json"], folder)], 0)
    torchrun = {"RANK": "0", "WORLD_SIZE": "2", "SLURM_PROCID": "0", "SLURM_NTASKS": "1"}
    srun = {"SLURM_PROCID": "1", "SLURM_NTASKS": "2"}
    for by, environment in (("torchrun", torchrun), ("srun", srun)):
        for options in ([], ["--transport", "mpi"], ["--transport", "nccl"]):
            ended = run(folder, options, environment)
            expect(
                f"{by} without MPI is refused in one line: {ended}",
                ended.codes == [2]
                and len(ended.lines) == 1
                and by in ended.err
                and "mpirun -n 2" in ended.err
                and "srun --mpi=pmix" in ended.err,
            )
        expect(f"who asks for threads gets them under {by}",
               run(folder, ["--transport", "threads"], environment).codes == [0])
    ended = run(folder, ["--share-gpus"], {})
    expect(
        f"processes share GPUs over NCCL alone: {ended}",
        ended.codes == [2] and ended.lines == ["weir: --share-gpus is for --transport nccl"],
    )
    for alone in (
        {},
        {"RANK": "0", "WORLD_SIZE": "1"},
        {"SLURM_PROCID": "0", "SLURM_NTASKS": "1"},
        {"SLURM_NTASKS": "2"},
    ):
        expect(f"one process is no launcher's fault: {alone}", run(folder, [], alone).codes == [0])

print("launchers without MPI: one line" if not faults else f"{len(faults)} faults")
sys.exit(1 if faults else 0)
