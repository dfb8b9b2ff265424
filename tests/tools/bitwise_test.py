#!/usr/bin/env python3
"""Random plans of one mini-batch train to the same bits: whatever K, v, partition, schedule and
re-materialisation, the weights' hash and the losses are those of K = 1.
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


def trained(options, folder):
    call(f"plan tiny.json {options} -o plan.json", folder)
    run = json.loads(call("--json run plan.json --warmup 0 --steps 2", folder))
    return run["parameters_sha256"], [step["loss"] for step in run["steps"]]


with tempfile.TemporaryDirectory() as name:
    root = pathlib.Path(name)
    (root / "tiny.json").write_text(json.dumps(MODEL))
    picks = random.Random(SEED)
    known, failed = {}, 0
    for number in range(PLANS):
        batch = f"-M {picks.choice((2, 6))} --attention {picks.choice(('unfused', 'fused'))}"
        if batch not in known:
            known[batch] = trained(f"{batch} -K 1 --schedule gpipe", root)
        options = f"{batch} {draw(picks)}"
        if trained(options, root) != known[batch]:
            failed += 1
            print(f"FAILED: seed {SEED}, plan {number}: weir plan tiny.json {options}")
hashes = len({digest for digest, _ in known.values()})
print(f"seed {SEED}: {PLANS} random plans, {hashes} hashes for {len(known)} trainings, "
      f"{failed} failed")
# Another M or attention is another training: a hash that sees nothing would be the same.
sys.exit(1 if failed or hashes != len(known) else 0)
