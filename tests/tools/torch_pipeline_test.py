#!/usr/bin/env python3
"""The script of `weir export --to torch` runs as it is for GPT-2 and Llama, and trains the same
whatever the partition and the schedule. torch_pipeline_test.py SOURCES WEIR"""
# SPDX-License-Identifier: Apache-2.0
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import torch
    import transformers  # noqa: F401
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

from torch_processes import run_ranks  # noqa: E402

WEIR = pathlib.Path(sys.argv[2]).resolve()
GPT2 = {"model_type": "gpt2", "n_embd": 32, "n_head": 2, "n_layer": 3, "n_positions": 16,
        "vocab_size": 64, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "resid_pdrop": 0.0,
        "bos_token_id": 0, "eos_token_id": 0}
LLAMA = {"model_type": "llama", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 16,
         "vocab_size": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": False}


def weir(*arguments):
    done = subprocess.run([WEIR, "-q", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def losses(folder, ranks):
    """Of three steps of the exported script."""
    said = run_ranks(folder / "pipeline.py", "--steps", "3", ranks=ranks)
    lines = [line for line in said.splitlines() if line.startswith("loss ")]
    assert len(lines) == 3, said
    return [float(line.split()[1]) for line in lines]


def trains_alike(folder, name, config):
    """One rank, two with the backward in halves, two that rebuild: the same weights, tokens and
    losses; the first is that of nearly equal chances, ln 64 = 4.16."""
    model = folder / f"{name}.json"
    model.write_text(json.dumps(config))
    seen = []
    fused = (2, "--schedule", "gpipe", "--attention", "fused", "--recompute", "full")
    ways = [(1, "--schedule", "1f1b"), (2, "--schedule", "zb-h1")]
    for ranks, *options in ways + [fused] if name == "gpt2" else ways:
        plan, out = folder / f"{name}-{len(seen)}.plan.json", folder / f"{name}-{len(seen)}"
        weir("plan", model, "-K", ranks, "-M", 4, "-b", 2, "--weight-decay", 0.5, *options,
             "-o", plan)
        weir("export", plan, "--to", "torch", "-o", out)
        seen.append(losses(out, ranks))
    for other in seen[1:]:
        assert all(abs(a - b) < 2e-3 for a, b in zip(seen[0], other)), seen
    assert abs(seen[0][0] - 4.16) < 0.2, seen
    return folder / f"{name}-0"


def decays_matrices_alone(folder):
    """As our optimizer: of a GPT-2 block four matrices decay, four biases and two norms do not."""
    text = (folder / "pipeline.py").read_text()
    module = {"__file__": str(folder / "pipeline.py"), "__name__": "pipeline"}
    exec(compile(text, "pipeline.py", "exec"), module)
    weights = list(module["layers"](1, 2)[0].parameters())
    first, second = module["optimizer"](weights).param_groups
    assert (first["weight_decay"], second["weight_decay"]) == (0.5, 0.0)
    assert len(first["params"]) == 4 and all(p.dim() == 2 for p in first["params"])
    assert len(second["params"]) == 8, len(second["params"])


def is_the_model_of_transformers(folder):
    """The same weights give transformers' own model the same logits."""
    module = {"__file__": str(folder / "pipeline.py"), "__name__": "pipeline"}
    exec(compile((folder / "pipeline.py").read_text(), "pipeline.py", "exec"), module)
    ours = torch.nn.Sequential(*module["layers"](0, 6)).eval()
    theirs = transformers.AutoModelForCausalLM.from_config(module["CONFIG"]).eval()
    with torch.no_grad():
        for mine, its in zip(ours.parameters(), theirs_in_order(theirs), strict=True):
            its.copy_(mine)
        tokens = torch.randint(64, (2, 16))
        error = (ours(tokens) - theirs(tokens).logits).abs().max().item()
    assert error < 1e-5, error


def theirs_in_order(model):
    """All weights, the head's apart from the embedding's."""
    if hasattr(model, "transformer"):
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    return list(model.parameters())


with tempfile.TemporaryDirectory() as name:
    gpt2 = trains_alike(pathlib.Path(name), "gpt2", GPT2)
    llama = trains_alike(pathlib.Path(name), "llama", LLAMA)
    decays_matrices_alone(gpt2)
    for made in (gpt2, llama):
        is_the_model_of_transformers(made)
print("torch_pipeline: the exported script trains GPT-2 and Llama, however they are divided")
