#!/usr/bin/env python3
"""What software ships cuts no model better than the planner: the simulated step of each partition
beside that of `--partition optimal`, for PipeDream's profiles of seven networks and three language
models with large vocabularies, 1F1B, K = 8, M = 8 and 32, on a DGX A100. Prints every case and the
table of docs/guides/schedules.md, which it holds to what comes out. The profiles are read from the
folder that WEIR_SAMPLES names, or from shared/samples beside the checkout; without them only the
language models are tried, and the exit code is 77.
Usage: partitioners_test.py SOURCE_DIR WEIR"""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

source, weir = pathlib.Path(sys.argv[1]).resolve(), os.path.abspath(sys.argv[2])
samples = pathlib.Path(os.environ.get("WEIR_SAMPLES", source.parent / "shared" / "samples"))
profiles = samples.resolve() / "profiles" / "pipedream"
PAGE = source / "docs" / "guides" / "schedules.md"
NETWORKS = ("densenet121", "gnmt", "nasnetamobile", "resnet18", "resnet50", "resnext50", "vgg16")
SHIPPED = ("uniform", "parameters", "block")
# Qwen2-7B as it is published: 152,064 words; both Llamas have 128,256.
QWEN2_7B = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 3584,
            "intermediate_size": 18944, "max_position_embeddings": 32768,
            "num_attention_heads": 28, "num_hidden_layers": 28, "num_key_value_heads": 4,
            "rope_theta": 1000000.0, "tie_word_embeddings": False, "vocab_size": 152064}
LANGUAGE = ["--seq-length", "4096", "--dtype", "bf16", "--attention", "fused"]


def weir_says(arguments, codes=(0,)):
    ended = subprocess.run([weir, "-q", *arguments], capture_output=True, text=True, check=False)
    if ended.returncode not in codes:
        sys.exit(f"weir {' '.join(arguments)}: exit {ended.returncode}: {ended.stderr}")
    return ended.stdout


def step_seconds(model, options, microbatches, partition):
    machine = ["--cluster", "dgx-a100", "--stack", "megatron-core"]
    weir_says(["plan", str(model), "-K", "8", "-M", str(microbatches), *options, *machine,
               "--partition", partition, "-o", "plan.json"])
    # Exit 4: the partition asks for more memory than there is, which it may: its step is forecast.
    forecast = json.loads(weir_says(["--json", "simulate", "plan.json", *machine], (0, 4)))
    return forecast["step_time_s"]


def cases():
    examples = source / "tools" / "examples" / "models"
    pathlib.Path("qwen2-7b.json").write_text(json.dumps(QWEN2_7B))
    if profiles.is_dir():
        yield from ((profiles / f"{name}.txt", []) for name in NETWORKS)
    yield examples / "llama-3-8b.json", LANGUAGE
    yield examples / "llama-3-70b.json", [*LANGUAGE, "--tp", "8", "--sequence-parallel"]
    yield "qwen2-7b.json", LANGUAGE


excess = {partition: [] for partition in SHIPPED}
worse = []
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    for model, options in cases():
        for microbatches in (8, 32):
            best = step_seconds(model, options, microbatches, "optimal")
            steps = [step_seconds(model, options, microbatches, p) for p in SHIPPED]
            case = f"{pathlib.Path(model).stem}, M = {microbatches}"
            print(f"{case}: {best:.4f} s", end="")
            for partition, step in zip(SHIPPED, steps):
                excess[partition].append(step / best - 1)
                print(f", {partition} {excess[partition][-1] * 100:+.1f} %", end="")
                if step < best:
                    worse.append(f"{case}: {partition} takes {step} s, the planner's {best} s")
            print(flush=True)
    os.chdir(source)


def digits(share):
    return f"+{share * 100:.1f} %" if share < 1 else f"+{share * 100:.0f} %"


# In the page a row is "| `uniform`: equal numbers of layers | +24.7 % | +104 % |".
page = PAGE.read_text().splitlines()
for partition in SHIPPED:
    row = f"| {digits(statistics.mean(excess[partition]))} | {digits(max(excess[partition]))} |"
    print(f"`{partition}` {row}")
    stands = [line for line in page if line.startswith(f"| `{partition}`:")]
    if profiles.is_dir() and not (len(stands) == 1 and stands[0].endswith(row)):
        worse.append(f"{PAGE}: expected the row of `{partition}` to end with {row}: {stands}")

print("\n".join(worse) or f"partitioners: none better in {len(excess['uniform'])} cases")
if not worse and not profiles.is_dir():
    print(f"skipped: PipeDream's profiles are not in {profiles}")
sys.exit(1 if worse else 0 if profiles.is_dir() else 77)
