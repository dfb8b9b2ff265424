#!/usr/bin/env python3
"""Writes the layers.csv that `weir` reads from any torch.nn.Module: its leaves in the order they run, each measured alone.

    export_layers.py torchvision.models:resnet18 8,3,224,224 -o layers.csv

or, from Python, export(module, example_input, path). Figures are per sample of the example's first dimension. What a
forward() does between leaves (sums, views) is not seen, rectifiers are run out of place, and a tensor that two
neighbours keep counts for both.
SPDX-License-Identifier: Apache-2.0"""
import argparse, csv, importlib, statistics, time

try:
    import torch
except ImportError:
    raise SystemExit("export_layers.py: needs PyTorch, which is not installed")


def milliseconds(work, repeats=9):
    def once():
        start = time.perf_counter()
        work()
        if torch.cuda.is_available(): torch.cuda.synchronize()
        return (time.perf_counter() - start) * 1e3
    return statistics.median([once() for _ in range(repeats)][2:])  # the first two warm up


def row(name, leaf, inputs, samples):
    tensors = [x.detach().requires_grad_(x.is_floating_point()) if torch.is_tensor(x) else x for x in inputs]
    weights, saved = {p.data_ptr(): p for p in leaf.parameters()}, {}
    def keep(x):  # what the backward needs, each memory once, weights apart
        if x.data_ptr() not in weights: saved[x.data_ptr()] = x.numel() * x.element_size()
        return x
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        output = leaf(*tensors)
    output = output[0] if isinstance(output, (tuple, list)) else output
    def backward(sources):
        sources, ones = [x for x in sources if torch.is_tensor(x) and x.requires_grad], torch.ones_like(output)
        if not sources or not output.requires_grad: return 0.0
        return milliseconds(lambda: torch.autograd.grad(output, sources, ones, retain_graph=True, allow_unused=True))
    times = milliseconds(lambda: leaf(*tensors)), backward(tensors), backward(weights.values())
    return [name, type(leaf).__name__, sum(p.numel() for p in weights.values()), *(f"{t / samples:.6f}" for t in times),
            sum(saved.values()) // samples, output.numel() * output.element_size() // samples, 1]


def export(module, example, path):
    calls, hooks = [], []
    for name, leaf in module.named_modules():
        if any(True for _ in leaf.children()): continue
        if hasattr(leaf, "inplace"): leaf.inplace = False
        def record(leaf, inputs, name=name or "layer"): calls.append((name, leaf, inputs))
        hooks.append(leaf.register_forward_pre_hook(record))
    module(example)
    for hook in hooks: hook.remove()
    seen = set()
    with open(path, "w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow("name kind parameters f_ms i_ms w_ms activation_bytes boundary_bytes count".split())
        for name, leaf, inputs in calls:
            cells = row(name, leaf, inputs, example.shape[0])
            if leaf in seen: cells[2] = 0  # what runs twice has its parameters once
            seen.add(leaf)
            table.writerow(cells)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("module", help="package.module:function that makes the module")
    parser.add_argument("shape", help="of the example input, the batch first: 8,3,224,224")
    parser.add_argument("-o", "--output", default="layers.csv")
    arguments = parser.parse_args()
    package, function = arguments.module.split(":")
    module = getattr(importlib.import_module(package), function)()
    export(module, torch.randn(*map(int, arguments.shape.split(","))), arguments.output)
