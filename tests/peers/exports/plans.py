"""Seeded random plans of public models, as people and searches ask for them.
"""
# SPDX-License-Identifier: Apache-2.0

import json
import os
import random
import subprocess


def decoder(kind, hidden, layers, heads, kv, ffn, vocabulary, **more):
    return {
        "model_type": kind,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "intermediate_size": ffn,
        "vocab_size": vocabulary,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0,
        "max_position_embeddings": 8192,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        **more,
    }


def gpt2(hidden, layers, heads, dropout=0.1):
    return {
        "model_type": "gpt2",
        "n_embd": hidden,
        "n_layer": layers,
        "n_head": heads,
        "n_positions": 1024,
        "vocab_size": 50257,
        "activation_function": "gelu_new",
        "attn_pdrop": dropout,
        "embd_pdrop": dropout,
        "resid_pdrop": dropout,
        "layer_norm_epsilon": 1e-5,
    }


# Sizes of the models' public configurations.
MODELS = {
    "gpt2": gpt2(768, 12, 12),
    "llama-3-8b": decoder("llama", 4096, 32, 32, 8, 14336, 128256),
    "llama-3.2-1b": decoder(
        "llama", 2048, 16, 32, 8, 8192, 128256, tie_word_embeddings=True, head_dim=64
    ),
    "qwen2-7b": decoder("qwen2", 3584, 28, 28, 4, 18944, 152064, use_sliding_window=False),
    "mixtral-8x7b": decoder(
        "mixtral",
        4096,
        32,
        32,
        8,
        14336,
        32000,
        num_local_experts=8,
        num_experts_per_tok=2,
        sliding_window=None,
    ),
    "qwen2-moe": decoder(
        "qwen2_moe",
        3584,
        28,
        28,
        4,
        18944,
        151936,
        num_experts=64,
        num_experts_per_tok=8,
        moe_intermediate_size=2560,
        shared_expert_intermediate_size=20480,
        norm_topk_prob=False,
    ),
}
# Drawn where they are named alone.
MORE_MODELS = {
    "llama-2-7b": decoder(
        "llama", 4096, 32, 32, 32, 11008, 32000, rope_theta=10000.0, max_position_embeddings=4096
    ),
}
ORDERS = (
    ["1f1b"] * 5
    + ["interleaved-1f1b"] * 5
    + ["gpipe", "zb-h1", "zb-v", "v-half", "looped-bfs", "dualpipe"]
)
# Whose devices multiply in 8 bits, which this machine may not say of itself.
CLUSTER = os.path.abspath(f"{__file__}/../../../../tools/examples/clusters/dgx-h100.json")
CHUNKED, FOLDED = ("interleaved-1f1b", "looped-bfs"), ("zb-v", "v-half")


def options(r, name):
    model = (MODELS | MORE_MODELS)[name]
    blocks = model.get("num_hidden_layers", model.get("n_layer"))
    heads = model.get("num_attention_heads", model.get("n_head"))
    order, ranks = r.choice(ORDERS), r.choice([1, 2, 2, 4, 4, 8])
    chunks = r.choice([2, 3]) if order in CHUNKED else 2 if order in FOLDED else 1
    while ranks * chunks > blocks:
        ranks //= 2
    if ranks == 1:
        order, chunks = "1f1b", 1
    tp = r.choice(
        [
            t
            for t in (1, 2, 4)
            if heads % t == 0 and model.get("num_key_value_heads", heads) % t == 0
        ]
    )
    cp, dp = r.choice([1, 1, 1, 2]), r.choice([1, 2, 4])
    o = {
        "pp": ranks,
        "vpp": chunks,
        "schedule": order,
        "tp": tp,
        "cp": cp,
        "dp": dp,
        "microbatches": r.choice([ranks, 2 * ranks, 2 * ranks + 1, 7]),
        "micro-batch-size": r.choice([1, 2]),
        "dtype": r.choice(["bf16", "bf16", "fp16", "fp32"]),
        "attention": r.choice(["fused", "unfused"]),
        "seq-length": 1024,
        "partition": "uniform",
        "recompute": r.choice(["none", "selective", "full", "full:2", "stage", f"1-{blocks // 2}"]),
    }
    if tp > 1 and r.random() < 0.7:
        o["sequence-parallel"] = None
    if dp * cp > 1:
        o["zero"] = r.choice([0, 1, 1, 2, 3])
        if r.random() < 0.4:
            o["overlap-grad-reduce"] = None
    if "num_experts" in str(model) and (dp * cp) % 2 == 0 and r.random() < 0.6:
        o["ep"] = 2
    if r.random() < 0.5:
        o.update(
            {
                "optimizer": r.choice(["adamw", "sgd"]),
                "clip-grad": r.choice([0, 1.0]),
                "lr-warmup-iters": r.choice([10, 2000]),
            }
        )
    add_rare(r, o)
    return o


def add_rare(r, o):
    """What few jobs have, each a few times in a hundred."""
    if r.random() < 0.08:
        recipe = r.choice(["delayed", "tensorwise", "mxfp8", "blockwise"])
        o.update({"dtype": "fp8", "fp8-recipe": recipe, "cluster": CLUSTER})
        if r.random() < 0.3:
            o["fp8-param-gather"] = None
    if r.random() < 0.06:
        o.update({"lengths": "64,256,1024", "rows": r.choice(["packed", "cut"])})
    if r.random() < 0.06:
        o["offload-optimizer"] = r.choice([0.5, 1])
    if r.random() < 0.06:
        o["optimizer"] = "muon"
    if r.random() < 0.06:
        o["mtp-num-layers"] = 1


def words(given):
    return [
        w
        for key, value in given.items()
        for w in ([f"--{key}"] if value is None else [f"--{key}", str(value)])
    ]


def write(weir, folder, count, seed, only=None):
    """Writes FOLDER/models/NAME.json and FOLDER/plans/NNN.json, refused ones drawn again."""
    r = random.Random(seed)
    for part in ("models", "plans"):
        os.makedirs(f"{folder}/{part}", exist_ok=True)
    for name, model in (MODELS | MORE_MODELS).items():
        with open(f"{folder}/models/{name}.json", "w") as file:
            json.dump(model, file)
    made, tries = 0, 0
    while made < count and tries < 10 * count:
        tries += 1
        name = r.choice(only or list(MODELS))
        path = f"{folder}/plans/{made:03}.json"
        run = subprocess.run(
            [
                weir,
                "-q",
                "plan",
                f"{folder}/models/{name}.json",
                *words(options(r, name)),
                "-o",
                path,
            ],
            capture_output=True,
            text=True,
        )
        made += run.returncode == 0
    return made
