#!/usr/bin/env python3
"""Models of `transformers`, loaded from its files: the same logits, gradients and losses, and back.
transformers_test.py SOURCES WEIR"""
# SPDX-License-Identifier: Apache-2.0
import json
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
# No byte of it is 1, whose embedding OPT does not train.
TEXT = pathlib.Path(sys.argv[1]).resolve() / "tools/examples/data/weirs.txt"
TOKENS = 16
LLAMA = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": TOKENS}
SIZES = {
    "gpt2": (transformers.GPT2Config, transformers.GPT2LMHeadModel,
             {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": TOKENS, "embd_pdrop": 0.0,
              "attn_pdrop": 0.0, "resid_pdrop": 0.0, "bos_token_id": 0, "eos_token_id": 0}),
    "opt": (transformers.OPTConfig, transformers.OPTForCausalLM,
            {"hidden_size": 32, "word_embed_proj_dim": 32, "ffn_dim": 64, "num_hidden_layers": 3,
             "num_attention_heads": 4, "max_position_embeddings": TOKENS, "dropout": 0.0,
             "attention_dropout": 0.0}),
    "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM, LLAMA),
    "llama, slow pairs slowed": (
        transformers.LlamaConfig, transformers.LlamaForCausalLM,
        LLAMA | {"head_dim": 12, "rope_parameters": {
            "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 256}}),
    "llama, all slowed, with biases": (
        transformers.LlamaConfig, transformers.LlamaForCausalLM,
        LLAMA | {"attention_bias": True, "mlp_bias": True, "rope_parameters": {
            "rope_type": "linear", "rope_theta": 500000.0, "factor": 4.0}}),
    "mistral": (transformers.MistralConfig, transformers.MistralForCausalLM, LLAMA),
    "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM, LLAMA),
    "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM, LLAMA | {"head_dim": 16}),
}


def weir(folder, *arguments):
    done = subprocess.run([WEIR, "--json", "-q", *map(str, arguments)], cwd=folder,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def relative(ours, theirs, scale=None):
    """The largest difference over the largest number, of `scale` where that is given."""
    largest = (theirs if scale is None else scale).abs().max()
    return ((ours.double() - theirs.double()).abs().max() / largest).item()


def loss_of(model, tokens, samples):
    logits = model(tokens[:, :-1]).logits
    loss = torch.nn.functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), tokens[:, 1:].reshape(-1).long(), reduction="sum")
    return logits, loss / (samples * TOKENS)


def check(family, tied, shards, dtype):
    config_class, model_class, sizes = SIZES[family]
    torch.manual_seed(3)
    config = config_class(vocab_size=256, tie_word_embeddings=tied, **sizes)
    model = model_class(config).to(dtype)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        theirs = folder / "theirs"
        model.save_pretrained(theirs, max_shard_size="40KB" if shards else "1GB")
        assert (theirs / "model.safetensors.index.json").exists() == shards
        model = model_class.from_pretrained(theirs, dtype=torch.float32).train()
        assert (model.lm_head.weight is model.get_input_embeddings().weight) == tied
        weir(folder, "plan", "theirs/config.json", "-K", 2, "-M", 2, "-b", 2, "--seq-length",
             TOKENS, "--optimizer", "sgd", "--learning-rate", 0.1, "-o", "plan.json")
        printed = weir(folder, "run", "plan.json", "--init", "theirs", "--warmup", 0, "--steps", 1,
                       "--data", TEXT, "--dump", "dump.safetensors",
                       "--save", "ours/model.safetensors")
        run = json.loads(printed)
        dump = load_file(folder / "dump.safetensors")
        logits, loss = loss_of(model, dump["tokens"], 4)
        loss.backward()
        assert relative(dump["logits"], logits) < 2e-6, relative(dump["logits"], logits)
        assert abs(run["steps"][0]["loss"] - loss.item()) < 1e-6 * loss.item()
        gradients = {name: weight.grad for name, weight in model.named_parameters()}
        for name, gradient in gradients.items():
            # A bias of keys moves all scores of a query alike where positions are not turned: its
            # gradient is 0 but for rounding, which is the size of its matrix' gradient's.
            zero = family == "opt" and name.endswith("k_proj.bias")
            scale = gradients[name.removesuffix("bias") + "weight"] if zero else None
            difference = relative(dump[name], gradient, scale)
            assert difference < 1e-5, (name, difference)
        # What we saved is a model of theirs: the step that both took leaves the same weights.
        (folder / "ours" / "config.json").write_text((theirs / "config.json").read_text())
        with torch.no_grad():
            for weight in model.parameters():
                weight -= 0.1 * weight.grad
        ours = model_class.from_pretrained(folder / "ours", dtype=torch.float32)
        moved = loss_of(ours, dump["tokens"], 4)[0]
        assert relative(moved, loss_of(model, dump["tokens"], 4)[0]) < 2e-6


for family, tied, shards, dtype in (
    ("gpt2", True, False, torch.float32), ("gpt2", False, True, torch.bfloat16),
    ("opt", True, True, torch.float16), ("opt", False, False, torch.float32),
    ("llama", False, False, torch.float32), ("llama", True, True, torch.bfloat16),
    ("llama, slow pairs slowed", False, False, torch.float32),
    ("llama, all slowed, with biases", False, False, torch.float32),
    ("mistral", False, False, torch.float32), ("qwen2", False, False, torch.float32),
    ("qwen3", True, False, torch.float32),
):
    check(family, tied, shards, dtype)
    print(f"{family}: tied {tied}, shards {shards}, {dtype}: equal")
