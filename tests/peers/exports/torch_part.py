"""PyTorch: the exported pipeline.py on CPU ranks, its losses and gradients against one rank's."""
# SPDX-License-Identifier: Apache-2.0

import json
import os
import re
import sys

from counts import Part, read

# Two steps in the exported script's own Trainer: the losses, and behind the second each gradient
# as its norm.
GRADIENTS = """
import os, sys
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import torch, torch.distributed as dist, pipeline
dist.init_process_group("gloo")
trainer, said = pipeline.Trainer(torch.device("cpu")), []
for step, (x, target) in zip(range(2), pipeline.batches(torch.device("cpu"))):
    value = trainer.step(x, target)
    if value is not None:
        said.append(f"loss {step} {value.item():.6f}")
for layer in range(pipeline.BOUNDS[-1]):
    module = trainer.layer(layer)
    if module is not None:
        for name, weight in module.named_parameters():
            said.append(f"grad {layer}.{name} {weight.grad.double().norm().item():.9e}")
print("\\n".join(said), flush=True)
dist.barrier()
dist.destroy_process_group()
"""
# The first is what the others are compared with. GPT-2's weights are tied, Llama's are not.
MODELS = ("gpt2-mini", "llama-10m")
PLANS = [
    (1, 1, "gpipe", "none"),
    (2, 1, "gpipe", "full"),
    (3, 1, "gpipe", "none"),
    (2, 1, "1f1b", "none"),
    (4, 1, "1f1b", "stage"),
    (4, 1, "1f1b-eager", "none"),
    (2, 2, "interleaved-1f1b", "full"),
    (1, 2, "interleaved-1f1b", "none"),
    (3, 2, "interleaved-1f1b", "1-3"),
    (2, 2, "interleaved-zb", "none"),
    (2, 2, "looped-bfs", "stage"),
    (2, 3, "looped-bfs", "none"),
    (4, 1, "zb-h1", "none"),
    (2, 1, "zb-h2", "full"),
    (2, 2, "zb-v", "none"),
    (2, 2, "v-half", "none"),
    (2, 2, "v-min", "full"),
    (2, 2, "dualpipev", "stage"),
    (3, 2, "dualpipev", "none"),
    (2, 2, "hanayo", "none"),
    (2, 1, "dualpipe", "none"),  # copies of the weights: refused
]
# Two steps take seconds, but each rank imports PyTorch first, on a machine that may be busy.
LIMIT_S = 1800
TOLERANCE = 1e-4  # of fp32 sums over micro-batches in another order


def model_without_dropout(gate, name):
    """Its file: what is dropped depends on the order of the passes."""
    config = read(f"{gate.source}/tools/examples/models/{name}.json")
    config = {k: 0.0 if k.endswith("pdrop") else v for k, v in config.items()}
    path = f"{gate.work}/torch/{name}.json"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        json.dump(config, file)
    return path


def plan(gate, model, out, wanted):
    ranks, chunks, order, recompute = wanted
    given = {
        "-K": ranks,
        "-v": chunks,
        "-M": 12,
        "--schedule": order,
        "--recompute": recompute,
        "--seq-length": 32,
        "--optimizer": "sgd",
        "--learning-rate": 0.01,
        "-o": f"{out}/plan.json",
    }
    return gate.weir("plan", model, *(word for pair in given.items() for word in pair))


def figures(gate, out, ranks):
    """Losses and norms of gradients, by their names."""
    sys.path.insert(0, f"{gate.source}/tests/tools")
    from torch_processes import run_ranks

    with open(f"{out}/gradients.py", "w") as file:
        file.write(GRADIENTS)
    said = run_ranks(f"{out}/gradients.py", ranks=ranks, limit_s=LIMIT_S)
    lines = re.findall(r"^((?:loss|grad) \S+) (\S+)$", said, re.M)
    return {key: float(value) for key, value in lines}


def compare(part, name, base, found):
    wrong = [
        k for k in base if abs(found.get(k, 1e30) - base[k]) > TOLERANCE * max(abs(base[k]), 1e-3)
    ]
    if wrong or not base:
        values = [(k, base[k], found.get(k)) for k in wrong[:2]]
        part.fail(name, f"{len(wrong)} of {len(base)} not as on one rank: {values}")
    else:
        part.started += 1


def run(gate):
    part = Part(gate, "torch")
    for model in MODELS:
        file, alone = model_without_dropout(gate, model), None
        for wanted in PLANS:
            name = f"{model}-K{wanted[0]}v{wanted[1]}-{wanted[2]}-{wanted[3]}"
            out = f"{gate.work}/torch/{name}"
            os.makedirs(out, exist_ok=True)
            made = plan(gate, file, out, wanted)
            if made.returncode:
                part.fail(name, "weir plan: " + made.stderr.strip().splitlines()[-1])
                continue
            if part.exported(f"{out}/plan.json", out, "--to", "torch") is None:
                continue
            try:
                found = figures(gate, out, wanted[0])
            except AssertionError as error:
                said = str(error).strip().splitlines() or [""]
                part.fail(name, next((l for l in said if "Error: " in l), said[-1])[:160])
                continue
            alone = alone or found
            compare(part, name, alone, found)
    return part.told()
