#!/usr/bin/env python3
"""Twenty steps of every optimizer, clipped and with a rate that warms up and decays, against
`torch.optim` on a model of `transformers` in double. optimizers_test.py SOURCES WEIR"""
# SPDX-License-Identifier: Apache-2.0
import json
import math
import pathlib
import subprocess
import sys
import tempfile

try:
    import torch
    import transformers
    from safetensors.torch import load_file
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

WEIR = pathlib.Path(sys.argv[2]).resolve()
TEXT = pathlib.Path(sys.argv[1]).resolve() / "tools/examples/data/weirs.txt"
TOKENS, SAMPLES, STEPS = 16, 7, 20
SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "vocab_size": 256,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": TOKENS}
MODELS = {"llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
          "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM)}
# The gradients of these models have norms of about 1, so every step is clipped.
CLIP, WARMUP, DECAY, LEAST = 0.25, 4, 16, 0.1
OPTIMIZERS = {
    "adamw": (0.01, [], lambda groups: torch.optim.AdamW(groups, betas=(0.9, 0.95))),
    "adam": (0.01, [], lambda groups: torch.optim.Adam(groups, betas=(0.9, 0.95))),
    "rmsprop": (0.003, ["--momentum", 0.5],
                lambda groups: torch.optim.RMSprop(groups, momentum=0.5, alpha=0.99)),
    "sgd": (1.0, ["--momentum", 0.9, "--nesterov"],
            lambda groups: torch.optim.SGD(groups, momentum=0.9, nesterov=True)),
}


def weir(folder, *arguments):
    done = subprocess.run([WEIR, "--json", "-q", *map(str, arguments)], cwd=folder,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rate_of(step):
    """Megatron's cosine."""
    if step <= WARMUP:
        return step / WARMUP
    if step > DECAY:
        return LEAST
    gone = (step - WARMUP) / (DECAY - WARMUP)
    return LEAST + (1 - LEAST) * (1 + math.cos(math.pi * gone)) / 2


def torch_losses(model, tokens, rate, make):
    """Weight decay is of matrices and embeddings alone, as ours is."""
    parameters = list(model.parameters())
    optimizer = make([
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": 0.1, "lr": rate},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0, "lr": rate}])
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate_of)
    losses = []
    for batch in tokens:
        optimizer.zero_grad()
        logits = model(batch[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, CLIP)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses


def check(family, name):
    rate, words, make = OPTIMIZERS[name]
    config_class, model_class = MODELS[family]
    torch.manual_seed(5)
    with tempfile.TemporaryDirectory() as path:
        folder = pathlib.Path(path)
        model_class(config_class(tie_word_embeddings=family == "qwen2", initializer_range=0.1,
                                 **SIZES)).save_pretrained(folder / "theirs")
        # 7 samples in 4 micro-batches: 2, 2, 2 and 1.
        weir(folder, "plan", "theirs/config.json", "-K", 2, "-M", 4, "--global-batch-size",
             SAMPLES, "--seq-length", TOKENS, "--optimizer", name, "--lr", rate, *words,
             "--weight-decay", 0.1, "--clip-grad", CLIP, "--lr-warmup-iters", WARMUP,
             "--lr-decay-style", "cosine", "--lr-decay-iters", DECAY, "--min-lr", LEAST * rate,
             "-o", "plan.json")
        common = ["run", "plan.json", "--init", "theirs", "--warmup", 0, "--data", TEXT]
        run = json.loads(weir(folder, *common, "--steps", STEPS))
        ours = [step["loss"] for step in run["steps"]]
        tokens = []  # a dump is of the last step
        for steps in range(1, STEPS + 1):
            weir(folder, *common, "--steps", steps, "--dump", "dump.safetensors")
            tokens.append(load_file(folder / "dump.safetensors")["tokens"].long())
        losses = {
            dtype: torch_losses(model_class.from_pretrained(folder / "theirs", dtype=dtype).train(),
                                tokens, rate, make)
            for dtype in (torch.float32, torch.float64)}
    exact = losses[torch.float64]
    assert exact[-1] < exact[0] - 0.1, exact
    # Until the loss more than doubles, which none here does: the distance from double over all
    # steps. Both start at fp32's rounding of one loss.
    floor = 2 ** -22 * exact[0]
    far = max(abs(a - b) for a, b in zip(ours, exact))
    theirs = max(abs(a - b) for a, b in zip(losses[torch.float32], exact))
    print(f"{family}, {name}: {far:.1e} from double, PyTorch in fp32 {theirs:.1e}; "
          f"loss {exact[0]:.3f} to {exact[-1]:.3f}")
    assert far <= 2 * theirs + floor, (family, name, far, theirs)


for family in MODELS:
    for name in OPTIMIZERS:
        check(family, name)
