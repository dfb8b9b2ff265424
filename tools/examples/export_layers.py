#!/usr/bin/env python3
"""Writes the layers.csv that `weir` reads from any torch.nn.Module: its leaves in the order they
run, each measured alone.

export_layers.py torchvision.models:resnet18 8,3,224,224 layers.csv

or, from Python, export(module, example_input, path). Figures are per sample of the example's first
dimension. What a forward() does between leaves (sums, views) is not seen, rectifiers are run out of
place, and a tensor that two neighbours keep counts for both."""
# SPDX-License-Identifier: Apache-2.0
import csv, importlib, statistics, sys, time

try:
    import torch
except ImportError:
    raise SystemExit("export_layers.py: needs PyTorch, which is not installed")


def milliseconds(work, times=()):
    while len(times) < 9:
        start = time.perf_counter()
        work()
        if torch.cuda.is_available(): torch.cuda.synchronize()
        times = (*times, (time.perf_counter() - start) * 1e3)
    return statistics.median(times[2:])  # the first two warm up


# milliseconds of F, I and W, bytes kept for the backward, bytes of the output
def measure(leaf, inputs):
    inputs = [
        x.detach().requires_grad_(x.is_floating_point()) if torch.is_tensor(x) else x
        for x in inputs
    ]
    kept = {}  # each memory once
    with torch.autograd.graph.saved_tensors_hooks(
        lambda x: kept.update({x.data_ptr(): x}) or x, lambda x: x
    ):
        output = leaf.forward(*inputs)
    output = output[0] if isinstance(output, (tuple, list)) else output
    def backward(sources):
        sources, ones = [
            x for x in sources if torch.is_tensor(x) and x.requires_grad
        ], torch.ones_like(output)
        if not sources or not output.requires_grad: return 0.0
        return milliseconds(
            lambda: torch.autograd.grad(output, sources, ones, retain_graph=True, allow_unused=True)
        )
    times = (
        milliseconds(lambda: leaf.forward(*inputs)),
        backward(inputs),
        backward(leaf.parameters()),
    )
    for weight in leaf.parameters(): kept.pop(weight.data_ptr(), None)
    return (
        *times,
        sum(x.numel() * x.element_size() for x in kept.values()),
        output.numel() * output.element_size(),
    )


def export(module, example, path):
    rows, leaves = [], {
        leaf: name or "layer" for name, leaf in module.named_modules() if not list(leaf.children())
    }
    def record(leaf, inputs, _):
        *times, kept, output = [figure / example.shape[0] for figure in measure(leaf, inputs)]
        # what runs twice has its parameters once
        first = all(row[0] != leaves[leaf] for row in rows)
        rows.append(
            [
                leaves[leaf],
                type(leaf).__name__,
                sum(p.numel() for p in leaf.parameters()) if first else 0,
                *(f"{t:.6f}" for t in times),
                int(kept),
                int(output),
                1,
            ]
        )
    for leaf in leaves: leaf.inplace = False
    hooks = [leaf.register_forward_hook(record) for leaf in leaves]
    module(example)
    for hook in hooks: hook.remove()
    header = "name kind parameters f_ms i_ms w_ms activation_bytes boundary_bytes count".split()
    with open(path, "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])


if __name__ == "__main__":
    if len(sys.argv) != 4: raise SystemExit(__doc__)
    package, function = sys.argv[1].split(":")
    shape = map(int, sys.argv[2].split(","))
    export(getattr(importlib.import_module(package), function)(), torch.randn(*shape), sys.argv[3])
