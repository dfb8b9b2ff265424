#!/usr/bin/env python3
"""Layers measured as PyTorch runs them make forecasts `measured`, and plans that PyTorch runs can
be held against them. profile_torch_test.py SOURCES WEIR, with the package weir in PYTHONPATH"""
# SPDX-License-Identifier: Apache-2.0
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import torch  # noqa: F401
    import transformers  # noqa: F401
    import weir  # noqa: F401
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

WEIR = pathlib.Path(sys.argv[2]).resolve()
GPT2 = {"model_type": "gpt2", "n_embd": 32, "n_head": 2, "n_layer": 4, "n_positions": 16,
        "vocab_size": 64, "bos_token_id": 0, "eos_token_id": 0}
LLAMA = {"model_type": "llama", "hidden_size": 32, "num_attention_heads": 4, "vocab_size": 64,
         "num_key_value_heads": 2, "num_hidden_layers": 3, "intermediate_size": 48,
         "max_position_embeddings": 16, "rms_norm_eps": 1e-5, "tie_word_embeddings": False}


def run(*words, code=0):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
    assert done.returncode == code, f"{words}: {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout if code == 0 else done.stderr.strip().splitlines()[-1]


def profile(*words, **options):
    return run(sys.executable, "-m", "weir.profile_torch", *words, "--repetitions", 3, **options)


def measures():
    profile("gpt2.json", "-b", "1,2", "-o", "costs.json", "--collectives", "all_reduce.txt")
    costs = json.loads(pathlib.Path("costs.json").read_text())
    assert costs["basis"] == "measured" and "PyTorch" in costs["origin"], costs["origin"]
    assert costs["disturbance"]["worked_s"] > 0, "what its ranks computed"
    assert len(costs["layers"]) == 4, "embedding, block, norm, head"
    block = costs["layers"][1]["times"]
    assert [at["micro_batch_size"] for at in block] == [1, 2]
    for at in block:
        assert min(at["f_s"], at["i_s"], at["w_s"], at["b_s"]) > 0, at
        # What a block keeps grows with the samples; at least its input, 16 tokens of 32 numbers.
        assert at["kept_bytes"] >= at["micro_batch_size"] * 16 * 32 * 4, at
    assert block[1]["kept_bytes"] > block[0]["kept_bytes"]
    assert costs["layers"][0]["times"][0]["i_s"] == 0, "tokens have no gradient"
    run(WEIR, "-q", "plan", "gpt2.json", "-K", 2, "-M", 4, "-o", "plan.json")
    forecast = json.loads(run(WEIR, "--json", "simulate", "plan.json", "--costs", "costs.json"))
    assert forecast["basis"] == "measured", forecast["basis"]
    links = json.loads(run(WEIR, "--json", "calibrate", "--nccl", "all_reduce.txt", "--cluster",
                           "dgx-h100", "-o", "cluster.json"))
    assert links["schema"] == "weir.links/1", links


def divides():
    """Of a device's half of a block: other keys, and less kept."""
    profile("gpt2.json", "-b", "1", "--tp", 2, "--dtype", "bf16", "-K", 2, "-o", "half.json")
    half = json.loads(pathlib.Path("half.json").read_text())["layers"][1]
    assert " bf16 tp=2" in half["key"], half["key"]
    run(WEIR, "-q", "plan", "gpt2.json", "-K", 1, "-M", 2, "-b", 1, "--tp", 2, "--dtype", "bf16",
        "-o", "half-plan.json")
    forecast = json.loads(run(WEIR, "--json", "simulate", "half-plan.json", "--costs", "half.json"))
    assert forecast["basis"] == "measured", forecast["basis"]
    line = profile("gpt2.json", "--tp", 3, code=3)
    assert line == "weir: plan: tp: 3 does not divide the 2 heads of block.0", line


def measures_megatron():
    """Its own modules, a device's half of each: I and W are one function there, so not told
    apart."""
    words = ("--layers", "megatron", "--tp", 2, "-b", "1")
    if importlib.util.find_spec("megatron") is None:
        line = profile("llama.json", *words, code=5)
        assert line == f"weir: megatron-core: not in this Python ({sys.executable})", line
        return
    for model in ("llama.json", "gpt2.json"):
        profile(model, *words, "-o", "megatron.json")
        costs = json.loads(pathlib.Path("megatron.json").read_text())
        assert "megatron-core" in costs["origin"], costs["origin"]
        block = costs["layers"][1]["times"][0]
        assert block["i_s"] is None and block["w_s"] is None and block["b_s"] > 0, block
    line = profile("gpt2.json", *words, "--attention", "fused", code=2)
    assert line.endswith("Megatron-Core's own attention is unfused"), line


def gives_up():
    """In one line, whatever the ranks are at."""
    line = profile("gpt2.json", "-K", 2, "--time-limit", 1, code=6)
    assert line == "weir: 2 ranks: not done after 1 s", line


def refuses():
    pathlib.Path("bert.json").write_text(json.dumps(
        {"model_type": "bert", "hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 64,
         "num_attention_heads": 2, "intermediate_size": 64, "max_position_embeddings": 16,
         "type_vocab_size": 2}))
    line = profile("bert.json", code=3)
    assert line.startswith("weir: bert.json: model_type: "), line
    from weir import profile_torch
    from weir.torch_layers import bare_layer, model_config

    said = weir.model("gpt2.json")["layers"]
    said[1]["parameters"] += 1
    try:
        config = model_config(GPT2, "unfused")
        profile_torch.check_parameters("gpt2.json", said, config,
                                       lambda index: bare_layer(config, index, None))
        raise AssertionError("another model was measured")
    except weir.InputError as error:
        assert "block.0: the framework's module has 12704 parameters" in str(error), error


def evaluates():
    """Plans forecast from that profile, then run there."""
    run(WEIR, "evaluate", "gpt2.json", "--executor", "torch", "--python", sys.executable,
        "--costs", "costs.json", "--global-batch-size", 2, "--fit", 2, "--interval", 0,
        "--held-out", 3, "--rounds", 1, "-o", "judged")
    judged = json.loads(pathlib.Path("judged/evaluation.json").read_text())
    assert judged["plans"] == 3 and judged["coverage"] is None, judged
    assert judged["memory_max_abs_error"] is None or torch.cuda.is_available()
    assert all(trial["measured_step_time_s"] > 0 for trial in judged["trials"])
    fitted = json.loads(pathlib.Path("judged/costs.json").read_text())
    assert fitted["basis"] == "calibrated", fitted["basis"]
    # What was learnt of F: of K = 1 in `alone`, of more stages in `correction`.
    before = json.loads(pathlib.Path("costs.json").read_text())
    assert fitted["correction"]["f"] * fitted["alone"]["f"] != before["alone"]["f"], fitted


with tempfile.TemporaryDirectory() as name:
    os.chdir(name)
    pathlib.Path("gpt2.json").write_text(json.dumps(GPT2))
    pathlib.Path("llama.json").write_text(json.dumps(LLAMA))
    for part in (measures, divides, measures_megatron, gives_up, refuses, evaluates):
        part()
    os.chdir("/")
print("profile_torch: measured layers, forecasts from them, plans run")
