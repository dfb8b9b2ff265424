#!/usr/bin/env python3
"""Random plans of one mini-batch train to the same bits: whatever K, v, partition, schedule and
re-materialisation, the weights' hash and the losses are those of K = 1. A quarter are of a U-Net,
whose skips are relayed or go directly.
Usage: bitwise_test.py SOURCE_DIR WEIR [PLANS] [SEED]"""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

weir = os.path.abspath(sys.argv[2])
PLANS = int(sys.argv[3]) if len(sys.argv) > 3 else 200
SEED = int(sys.argv[4]) if len(sys.argv) > 4 else 1
LAYERS = 6  # the embedding, three blocks, the norm and the head, which is tied to the embedding
MODEL = {"model_type": "gpt2", "n_embd": 16, "n_head": 2, "n_layer": 3, "vocab_size": 32,
         "n_positions": 8, "resid_pdrop": 0.1}
LAYER_LISTS = ("0", "1-2", "0,2,4-5", "3-4")
# Two levels: as many layers. Its skips cross stages, handed on or directly.
UNET = {"schema": "weir.cnn/1", "network": "unet", "layers": "blocks", "depth": 2, "channels": 4,
        "convolutions": 1, "image": 8, "output_channels": 3}


def call(line, folder):
    done = subprocess.run([weir, "-q", *line.split()], cwd=folder, capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"{line}: ended with {done.returncode}: {done.stderr}")
    return done.stdout


def draw(choice):
    """The options of a plan, M and the attention apart: what may not change the bits."""
    ranks = choice.randrange(1, 5)
    chunks = choice.choice((1, 1, 1, 2)) if ranks in (2, 3) else 1
    schedule = choice.choice(("gpipe", "1f1b", "zb-h1")) if chunks == 1 else "interleaved-1f1b"
    cuts = sorted(choice.sample(range(1, LAYERS), ranks * chunks - 1))
    modes = ["none", "full", "stage", "except-last", *LAYER_LISTS]
    line = f"-K {ranks} -v {chunks} --schedule {schedule} --recompute {choice.choice(modes)}"
    return line + (f" --boundaries {','.join(map(str, cuts))}" if cuts else "")


def draw_batch(choice):
    """The model and what of its training changes the bits."""
    if choice.random() < 0.25:
        return f"unet.json -M {choice.choice((2, 6))} -b 2"
    return f"tiny.json -M {choice.choice((2, 6))} --attention {choice.choice(('unfused', 'fused'))}"


def trained(options, folder):
    call(f"plan {options} -o plan.json", folder)
    run = json.loads(call("--json run plan.json --warmup 0 --steps 2", folder))
    return run["parameters_sha256"], [step["loss"] for step in run["steps"]]


with tempfile.TemporaryDirectory() as name:
    root = pathlib.Path(name)
    (root / "tiny.json").write_text(json.dumps(MODEL))
    (root / "unet.json").write_text(json.dumps(UNET))
    picks = random.Random(SEED)
    known, failed, direct = {}, 0, 0
    for number in range(PLANS):
        batch = draw_batch(picks)
        if batch not in known:
            known[batch] = trained(f"{batch} -K 1 --schedule gpipe", root)
        options = f"{batch} {draw(picks)}"
        if "unet" in batch and "-v 1" in options and picks.random() < 0.7:
            options += " --skips direct"
            direct += 1
        if trained(options, root) != known[batch]:
            failed += 1
            print(f"FAILED: seed {SEED}, plan {number}: weir plan {options}")
hashes = len({digest for digest, _ in known.values()})
print(f"seed {SEED}: {PLANS} random plans, {direct} with direct skips, {hashes} hashes for "
      f"{len(known)} trainings, {failed} failed")
# Another M or attention is another training: a hash that sees nothing would be the same.
sys.exit(1 if failed or hashes != len(known) else 0)
