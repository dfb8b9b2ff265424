#!/usr/bin/env python3
"""What `weir export` writes starts in the trainers themselves, or is refused by the name of a row.

    gate_test.py SOURCE WEIR [PART...]

Parts: megatron, torchtitan, torchtitan-0.2, deepspeed, torch, patch, places; words that begin with
-- go to `weir export` (--allow-other-schedule). Each is a file of this folder, NAME_part.py, and
asks a trainer in a process of its own, judge_NAME.py.

WEIR_TRAINERS names a folder of checkouts (megatron, torchtitan, torchtitan-0.2, deepspeed); a part
whose checkout is not there is left out, and without any the test is skipped (77). WEIR_GATE_PLANS:
plans a trainer, 60 where it is not set, or a folder of them (plans/*.json). WEIR_GATE_WORK: where
what is written stays. No trainer's code is here, and none needs a GPU; torchtitan's jobs in 8 bits
need torchao.
"""
# SPDX-License-Identifier: Apache-2.0

import importlib.util
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import deepspeed_part  # noqa: E402
import megatron_part  # noqa: E402
import patch_part  # noqa: E402
import plans  # noqa: E402
import torch_part  # noqa: E402
import torchtitan_part  # noqa: E402
from counts import Gate  # noqa: E402

COUNT = os.environ.get("WEIR_GATE_PLANS", "60")
PATCHES = 20  # of each script
SWEPT = 4  # scripts
CHECKOUTS = {
    "megatron": "megatron",
    "torchtitan": "torchtitan",
    "torchtitan-0.2": "torchtitan-0.2",
    "deepspeed": "deepspeed",
    "torch": "",
    "patch": "megatron",
    "places": "megatron",
}


def drawn(gate, name, seed, only=None):
    """A folder of random plans, or the one that was named."""
    if not COUNT.isdigit():
        return COUNT
    folder = f"{gate.work}/{name}"
    if not os.path.isdir(f"{folder}/plans"):
        plans.write(gate.program, folder, int(COUNT), seed, only)
    return folder


def run(gate, part):
    def all_models():
        return drawn(gate, "all", 7)

    def llama():  # with a flavour of torchtitan's, a tied one, and sizes of none
        return drawn(gate, "llamas", 11, ["llama-3-8b", "llama-3.2-1b", "llama-2-7b"])

    return {
        "megatron": lambda: megatron_part.run(gate, all_models()),
        "torchtitan": lambda: torchtitan_part.run(gate, llama(), "main"),
        "torchtitan-0.2": lambda: torchtitan_part.run(gate, llama(), "0.2"),
        "deepspeed": lambda: deepspeed_part.run(gate, all_models()),
        "torch": lambda: torch_part.run(gate),
        "patch": lambda: patch_part.run(gate, PATCHES, 0),
        "places": lambda: patch_part.run(gate, 0, SWEPT),
    }[part]()


def main():
    source, program = sys.argv[1:3]
    trainers = os.environ.get("WEIR_TRAINERS", "")
    parts = [w for w in sys.argv[3:] if not w.startswith("--")] or list(CHECKOUTS)
    here = [p for p in parts if trainers and os.path.isdir(f"{trainers}/{CHECKOUTS[p]}")]
    if not here or importlib.util.find_spec("torch") is None:
        print("skipped: WEIR_TRAINERS names no trainers' sources, or PyTorch is not here")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as made:
        work = os.path.abspath(os.environ.get("WEIR_GATE_WORK", made))
        os.makedirs(work, exist_ok=True)
        more = [w for w in sys.argv[3:] if w.startswith("--")]
        gate = Gate(os.path.abspath(source), os.path.abspath(program), trainers, work, more)
        good = [run(gate, part) for part in here]
    sys.exit(0 if all(good) else 1)


main()
