#!/usr/bin/env python3
"""`--patience` ends every wait that there is: one of two processes stands still in each collective
of a run in turn, from MPI_Init to MPI_Finalize, and the other ends within its patience, with exit
code 6 and one line. patience_test.py WEIR MPIRUN STOP_AT_LIBRARY [--some]"""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from launch import ByMpi

weir, library = sys.argv[1], sys.argv[3]
by_mpi = ByMpi(sys.argv[2], weir)
PATIENCE_S = 2
LATEST_S = 40  # it starts, and ends, on a machine that is busy; MPI's own end has 5 s more
MODEL = {"model_type": "gpt2", "n_embd": 32, "n_head": 2, "n_layer": 3, "vocab_size": 64,
         "n_positions": 16}
RUN = f"-q run k2.json --steps 4 --checkpoint-every 2 -o out --patience {PATIENCE_S}"
MESSAGES, BARRIERS, EDGES = 0, 1, 3


def send(channel, tag, number=1):
    return f"MPI_Isend:{channel}:{tag}:{number}"


COLLECTIVES = {
    "the agreement on what is run": send(MESSAGES, 8),
    "a checkpoint's weights": send(MESSAGES, 3, 4),
    "MPI's start": "MPI_Init_thread",
    "the channels": "MPI_Comm_dup",
    "who is where": send(MESSAGES, 0),
    "the clocks": send(MESSAGES, 1, 5),
    "a barrier": send(BARRIERS, 0, 3),
    "a step's messages": send(EDGES, 1, 2),
    "a step's loss": send(MESSAGES, 5, 2),
    "whether to stop": send(MESSAGES, 6, 2),
    "the weights at the end": send(MESSAGES, 3, 40),
    "the record": send(MESSAGES, 2),
    "MPI's end": "MPI_Finalize",
}
faults = []


def stops_in(what, where, folder):
    # Of a run anew each time; mpirun hands its environment on.
    os.environ.update(STOP_RANK="1", STOP_AT=where)
    shutil.rmtree(folder / "out", ignore_errors=True)
    ended = by_mpi.start(folder, 2, RUN, f'export LD_PRELOAD="{library}"')
    holds = ended.codes == [6] and len(ended.lines) == 1 and ended.seconds < LATEST_S
    if not holds:
        faults.append(what)
        print(f"FAILED: {what} ({where}): {ended}")


with tempfile.TemporaryDirectory() as name:
    place = pathlib.Path(name)
    (place / "model.json").write_text(json.dumps(MODEL))
    subprocess.run([weir, "plan", "model.json", "-K", "2", "-M", "2", "-o", "k2.json"], cwd=place,
                   check=True, capture_output=True)
    chosen = list(COLLECTIVES.items())[:2] if "--some" in sys.argv else COLLECTIVES.items()
    for one, call in chosen:
        stops_in(one, call, place)

print(f"patience: {len(chosen) - len(faults)} of {len(chosen)} waits ended in time")
sys.exit(1 if faults else 0)
