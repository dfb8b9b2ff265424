#!/usr/bin/env python3
"""Modules of one's own as layers: sizes, FLOPs and kept bytes against counts by hand, gradients of
the exported pipeline against the module's own, and what is refused. Skips without PyTorch.
from_torch_test.py SOURCES WEIR"""
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import torch
    from torch import nn
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import weir
from torch_processes import run_ranks  # noqa: E402

WEIR = pathlib.Path(sys.argv[2]).resolve()
LINK = {"latency_s": 1e-5, "bandwidth_bytes_per_s": 1e9}
WIDTH, TOKENS, WORDS = 8, 4, 16

NET = '''
import torch
from torch import nn


class Block(nn.Module):
    """Attention of one head and an MLP, a skip around each."""

    def __init__(self, d):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).chunk(3, -1)
        x = x + self.proj(torch.softmax(q @ k.transpose(1, 2), -1) @ v)
        return x + self.down(torch.relu(self.up(self.norm2(x))))


class Net(nn.Module):
    def __init__(self, words=16, d=8, blocks=2):
        super().__init__()
        self.embed, self.norm = nn.Embedding(words, d), nn.LayerNorm(d)
        self.blocks = nn.ModuleList(Block(d) for _ in range(blocks))
        self.head = nn.Linear(d, words, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def build():
    return Net(), torch.randint(16, (2, 4))


class Ladder(nn.Module):
    """The first one's output goes beside the second and the third to the last."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = nn.Linear(8, 8), nn.Linear(8, 6), nn.Linear(6, 8)
        self.last = nn.Linear(8, 5)

    def forward(self, x):
        a = torch.relu(self.first(x))
        return self.last(a + self.third(self.second(a)))


def ladder():
    return Ladder(), torch.randn(2, 8)
'''

GRADIENTS = '''
import pathlib, sys
import torch, torch.distributed as dist
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import pipeline
dist.init_process_group("gloo")
trainer = pipeline.Trainer(torch.device("cpu"))
trainer.optimizer.step = lambda: None
x, target = next(pipeline.batches(torch.device("cpu")))
trainer.step(x, target)
names = {id(p): name for layer in pipeline.Whole.cut()
         for name, p in layer.module.named_parameters()}
torch.save({names[id(p)]: p.grad for p in trainer.parameters},
           pathlib.Path(__file__).parent / f"rank{dist.get_rank()}.pt")
whole, _ = pipeline.built()
output = whole(*x)
pipeline.loss(output, target).backward()
torch.save({name: p.grad for name, p in whole.named_parameters(remove_duplicate=False)},
           pathlib.Path(__file__).parent / f"whole{dist.get_rank()}.pt")
dist.barrier()
dist.destroy_process_group()
'''


def read(module, inputs, **options):
    return weir.from_torch(module, inputs, batch_sizes=[1, 2], repetitions=3, link=LINK, **options)


def is_layer(layer, name, **expected):
    assert layer["name"] == name, (layer["name"], name)
    for key, value in expected.items():
        assert layer[key] == value, (name, key, layer[key], value)


def counts_a_multilayer_perceptron():
    """Linear(8, 16): 8 16 + 16 weights, 2 8 16 FLOPs a sample; it keeps its 8 numbers of input. The
    rectifier keeps its output, 16 numbers of 4 bytes."""
    made = read(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4, bias=False)),
                torch.randn(2, 8))
    first, relu, last = made.layers
    is_layer(first, "0", parameters=144, flops=256, input_bytes=32, keeps_input=True, kept_bytes=0,
             output_bytes=64)
    is_layer(relu, "1", parameters=0, flops=0, kept_bytes=64, keeps_input=False, output_bytes=64)
    is_layer(last, "2", parameters=64, flops=128, keeps_input=True, kept_bytes=0, output_bytes=16)
    twice = nn.Linear(8, 8)  # runs twice: its 72 weights count once
    again = read(nn.Sequential(twice, nn.Tanh(), twice), torch.randn(2, 8))
    assert [layer["parameters"] for layer in again.layers] == [72, 0, 0]
    assert all(layer["times"][b]["f_s"] > 0 for layer in made.layers for b in (1, 2))
    assert first["times"][1]["i_s"] == 0, "nobody asks for the gradient of the model's input"
    plan = weir.plan(made.model, costs=made.costs, pp=2, microbatches=4)
    forecast, _ = weir.simulate(plan, costs=made.costs)
    assert forecast["basis"] == "measured", forecast["basis"]
    assert "your module" in made.costs.origin, made.costs.origin


def counts_a_tied_transformer(source):
    """A block is cut where its second norm begins: one tensor crosses there. With d = 8, T = 4:
    attention has 2 d + 3 d^2 + 3 d + d^2 + d weights, 2 T 3 d^2 + 4 T^2 d + 2 T d^2 FLOPs, and
    keeps mean and deviation of T rows, what the norm gave (T d), q, k and v (3 T d), the T^2
    probabilities, and what the projection takes (T d). The MLP: 2 d + 8 d^2 + 5 d weights,
    16 T d^2 FLOPs; kept 2 T, T d and the rectified 4 T d."""
    d, t = WIDTH, TOKENS
    made = read(*source["build"]())
    names = [layer["name"] for layer in made.layers]
    assert names == ["embed", "blocks.0", "blocks.0.norm2", "blocks.1", "blocks.1.norm2", "norm",
                     "head"], names
    embed, attention, mlp, *_, head = made.layers
    is_layer(embed, "embed", parameters=WORDS * d, input_bytes=8 * t, output_bytes=4 * t * d)
    is_layer(attention, "blocks.0", parameters=2 * d + 4 * d * d + 4 * d,
             flops=6 * t * d * d + 4 * t * t * d + 2 * t * d * d, keeps_input=True,
             kept_bytes=4 * (2 * t + 5 * t * d + t * t), output_bytes=4 * t * d)
    is_layer(mlp, "blocks.0.norm2", parameters=2 * d + 8 * d * d + 5 * d, flops=16 * t * d * d,
             keeps_input=True, kept_bytes=4 * (2 * t + 5 * t * d))
    is_layer(head, "head", parameters=0, flops=2 * t * d * WORDS, output_bytes=4 * t * WORDS)
    assert made.notes == ["head: head.weight is a weight of embed, counted there"], made.notes


def follows_branches(source):
    """Beside the second layer's output runs the first one's until the last: one tensor crosses
    before the second and the last, two before the third."""
    module, inputs = source["ladder"]()
    chain = read(module, inputs)
    assert [layer["name"] for layer in chain.layers] == ["first", "second", "last"]
    assert chain.layers[1]["parameters"] == 8 * 6 + 6 + 6 * 8 + 8
    ladder = read(module, inputs, crossing=2)
    assert [layer["name"] for layer in ladder.layers] == ["first", "second", "third", "last"]
    assert ladder.layers[1]["output_bytes"] == 4 * (6 + 8)

    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 3)

        def forward(self, x):
            y = self.a(x)
            return self.b(y), y

    pair = read(Pair(), inputs)
    assert pair.layers[1]["output_bytes"] == 4 * (3 + 8), "a tuple is all of its tensors"


def refuses():
    class Asks(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    class Dynamic(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.asks = nn.Linear(8, 8), Asks()

        def forward(self, x):
            return self.asks(self.a(x))

    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x, mask):
            return self.b(self.a(x) * mask) * mask

    def line_of(kind, *arguments, **options):
        try:
            read(*arguments, **options)
        except kind as error:
            return str(error)
        raise AssertionError("not refused")

    x = torch.randn(2, 8)
    line = line_of(weir.InputError, Dynamic(), x)
    assert line.startswith("asks: torch.export cannot trace it: ") and "\n" not in line, line
    line = line_of(weir.InputError, Masked(), (x, x))
    assert line == ("at least 2 tensors cross each place where a child begins: crossing 1 cuts it "
                    "nowhere, 2 does"), line
    assert len(read(Masked(), (x, x), crossing=2).layers) == 2
    line_of(weir.InputError, Masked(), (x, torch.randn(3, 8)))
    line_of(weir.InputError, "net", x)
    line_of(weir.UsageError, nn.Linear(8, 8), x, crossing=0)


def commands(folder, build, *options):
    out = folder / build
    for words in (["plan", f"net.py:{build}", "--from", "torch", "--python", sys.executable, "-b",
                   "2", "-M", "4", "--batch-sizes", "2", *options, "-o", f"{build}.json"],
                  ["export", f"{build}.json", "--to", "torch", "-o", out]):
        done = subprocess.run([WEIR, "-q", *words], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return out


def gradients_are_the_modules(folder, build, *options):
    """Of one step of the exported pipeline, over gloo: a weight that two ranks have gets the sum of
    what both find. Within rounding of sums in another order, 1e-5 of the largest."""
    out = commands(folder, build, *options)
    (out / "gradients.py").write_text(GRADIENTS)
    run_ranks(out / "gradients.py", ranks=2)
    expected, seen = torch.load(out / "whole0.pt"), set()
    for rank in range(2):
        for name, gradient in torch.load(out / f"rank{rank}.pt").items():
            scale = expected[name].abs().max()
            assert (gradient - expected[name]).abs().max() <= 1e-5 * scale, (build, rank, name)
            seen.add(name)
    assert len(seen) >= len(set(map(id, expected.values()))) - 1, (seen, list(expected))
    said = run_ranks(out / "pipeline.py", "--steps", "2", ranks=2)
    assert said.count("loss ") == 2, said


def main():
    os.environ["PYTHONPATH"] = str(pathlib.Path(weir.__file__).resolve().parent.parent) \
        if "PYTHONPATH" not in os.environ else os.environ["PYTHONPATH"]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "net.py").write_text(NET)
        source = {"__name__": "net"}
        exec(compile(NET, "net.py", "exec"), source)
        counts_a_multilayer_perceptron()
        counts_a_tied_transformer(source)
        follows_branches(source)
        refuses()
        gradients_are_the_modules(folder, "build", "-K", "2", "--boundaries", "3")
        gradients_are_the_modules(folder, "ladder", "-K", "2", "--boundaries", "2", "--crossing",
                                  "2")
    print("from_torch: counts, gradients and refusals as derived")


if __name__ == "__main__":
    main()
