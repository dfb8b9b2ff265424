#!/usr/bin/env python3
"""The script of `weir export --to dtensor` computes a network under a layout on DTensors, over
gloo: loss and gradients are those of the network on one device, which are what plain PyTorch says.
torch_dtensor_test.py SOURCES WEIR"""
# SPDX-License-Identifier: Apache-2.0
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import torch
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

from torch_processes import run_ranks  # noqa: E402

F = torch.nn.functional
WEIR = pathlib.Path(sys.argv[2]).resolve()
MODELS = pathlib.Path(sys.argv[1]).resolve() / "tools/examples/models"
# Sums of fp32 in another order: roundings of 6e-8, some hundreds of them one behind the other where
# gradients have come through two blocks. A summand that is missing or there twice is above 1e-2.
CLOSE = 2e-4

SIZES = {"batch": 4, "length": 8, "memory": 8, "hidden": 16, "heads": 4, "width": 4, "ffn": 32,
         "vocab": 24}
LAYERS = [
    {"name": "embedding", "tensors": ["weight table[vocab, hidden]", "x[batch, length, hidden]"],
     "operations": ["x = gather(table) over vocab"]},
    {"name": "block", "repeat": 2,
     "tensors": [
         "x[batch, length, hidden]", "weight gain[hidden]", "n[batch, length, hidden]",
         "weight wq[hidden, heads, width]", "q[batch, length, heads, width]",
         "weight wk[hidden, heads, width]", "k[batch, length, heads, width]",
         "seen[batch, memory, heads, width]", "scores[batch, heads, length, memory]",
         "shares[batch, heads, length, memory]", "context[batch, length, heads, width]",
         "weight wo[heads, width, hidden]", "o[batch, length, hidden]",
         "between[batch, length, hidden]", "weight gain2[hidden]", "weight shift2[hidden]",
         "n2[batch, length, hidden]", "weight up[hidden, ffn]", "weight bias[ffn]",
         "u[batch, length, ffn]", "b[batch, length, ffn]", "a[batch, length, ffn]",
         "weight down[ffn, hidden]", "z[batch, length, hidden]", "y[batch, length, hidden]"],
     "operations": [
         "n = rms_norm(x gain) over hidden", "q = n wq", "k = n wk", "seen = move(k)",
         "scores = q seen", "shares = softmax(scores) over memory", "context = shares seen",
         "o = context wo", "between = add(x o)", "n2 = norm(between gain2 shift2) over hidden",
         "u = n2 up", "b = add(u bias)", "a = gelu(b)", "z = a down", "y = add(between z)"]},
    {"name": "head", "tensors": ["x[batch, length, hidden]", "tied table[vocab, hidden]",
                                 "logits[batch, length, vocab]", "losses[batch, length]"],
     "operations": ["logits = x table", "losses = loss(logits) over vocab"]}]
# Megatron's cut; the feed-forward width over both; the residual stream split; keys split,
# so that softmax sums over devices; sequences split outside of products; nothing but the batch.
LAYOUTS = {
    "megatron": ("d=2,m=2", "batch:d,heads:m,ffn:m,vocab:m"),
    "both": ("d=2,m=2", "ffn:d,ffn:m,vocab:m"),
    "stream": ("m=2", "hidden:m"),
    "keys": ("m=2", "memory:m,vocab:m"),
    "length": ("d=2,m=2", "batch:d,length:m"),
    "data": ("d=4", "batch:d")}


def weir(*arguments, code=0):
    done = subprocess.run([WEIR, "-q", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def written(folder):
    """The network in a file, with its layouts."""
    layouts = []
    for name, (mesh, rules) in LAYOUTS.items():
        sizes = [axis.split("=") for axis in mesh.split(",")]
        layouts.append({"name": name, "rules": rules,
                        "mesh": [{"name": axis, "size": int(size)} for axis, size in sizes]})
    file = folder / "small.json"
    file.write_text(json.dumps(
        {"schema": "weir.layout/1", "name": "small",
         "dimensions": [{"name": name, "size": size} for name, size in SIZES.items()],
         "layers": LAYERS, "layouts": layouts}))
    return file


def module_of(folder):
    """The exported script as a module."""
    module = {"__file__": str(folder / "dtensor.py"), "__name__": "dtensor"}
    exec(compile((folder / "dtensor.py").read_text(), "dtensor.py", "exec"), module)
    return module


def is_what_pytorch_says(module):
    """The network on one device, written down once more in plain PyTorch."""
    network = module["Network"]()
    w = {name: weight.detach().clone().requires_grad_() for name, weight in
         network.weights.items()}
    below = SIZES["vocab"]
    tokens = network.drawn("embedding.0.x.integers", ["batch", "length"], below)
    targets = network.drawn("head.0.losses.integers", ["batch", "length"], below)
    x = w["0:embedding/0/table"][tokens]
    for copy in range(2):
        own = {name.split("/")[2]: weight for name, weight in w.items()
               if name.startswith(f"1:block/{copy}/")}
        n = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * own["gain"]
        q = torch.einsum("blh,hnw->bnlw", n, own["wq"])
        k = torch.einsum("blh,hnw->bnlw", n, own["wk"])
        context = (q @ k.mT).softmax(-1) @ k
        x = x + torch.einsum("bnlw,nwh->blh", context, own["wo"])
        n = F.layer_norm(x, [SIZES["hidden"]], own["gain2"], own["shift2"], 1e-5)
        x = x + F.gelu(n @ own["up"] + own["bias"]) @ own["down"]
    loss = F.cross_entropy((x @ w["0:embedding/0/table"].T).flatten(0, 1), targets.flatten())
    mine = network()
    loss.backward()
    mine.backward()
    assert abs(loss.item() - mine.item()) < CLOSE * loss.item(), (loss, mine)
    for name, weight in network.weights.items():
        error = (weight.grad - w[name].grad).abs().max() / w[name].grad.abs().max()
        assert error < CLOSE, (name, error)


def agrees(folder, file, name, ranks):
    """Over so many processes, with the network on one device."""
    out = folder / f"out-{name}"
    weir("export", file, "--to", "dtensor", "--layout-name", name, "-o", out)
    said = run_ranks(out / "dtensor.py", "--against-whole", ranks=ranks)
    worst = float(re.search(r"largest difference (\S+)", said)[1])
    assert worst < CLOSE, (name, said)
    return out


def refuses_by_name(folder):
    """What DTensor cannot say."""
    examples = MODELS.parent / "layouts"
    for file, words in (("experts.json", "choose(shares) over choices: DTensor has no"),
                        ("recurrent.json", "steps over time have no DTensor script"),
                        ("two-layer.json", "expected a network")):
        said = weir("export", examples / file, "--to", "dtensor", "-o", folder / "none", code=3)
        assert words in said, said
    assert not (folder / "none").exists()


def trains(folder):
    """GPT-2's network, three steps of AdamW on four devices: a loss near ln 64 that falls."""
    config = {"model_type": "gpt2", "n_embd": 32, "n_head": 4, "n_layer": 2, "n_positions": 16,
              "vocab_size": 64, "bos_token_id": 0, "eos_token_id": 0}
    model, file = folder / "gpt2.json", folder / "gpt2.layout.json"
    model.write_text(json.dumps(config))
    weir("layout", model, "--attention", "unfused", "-b", 4, "--mesh", "d=2,m=2", "--rules",
         "batch:d,heads:m,ffn:m,vocab:m,rows:m", "--program", file)
    agrees(folder, file, "asked", 4)
    said = run_ranks(folder / "out-asked" / "dtensor.py", "--steps", "3", ranks=4)
    losses = [float(loss) for loss in re.findall(r"loss (\S+)", said)]
    assert len(losses) == 3 and losses[0] > losses[1] > losses[2], said
    assert abs(losses[0] - math.log(64)) < 0.2, said  # weights of 0.02 tell the tokens hardly apart


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    refuses_by_name(folder)
    small = written(folder)
    for place, (layout, (mesh, _)) in enumerate(LAYOUTS.items()):
        ranks = 1
        for axis in mesh.split(","):
            ranks *= int(axis.split("=")[1])
        made = agrees(folder, small, layout, ranks)
        if place == 0:
            is_what_pytorch_says(module_of(made))
    trains(folder)
print("torch_dtensor: networks on DTensors are those on one device, and PyTorch's")
