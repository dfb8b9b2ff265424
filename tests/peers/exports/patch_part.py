"""Megatron-LM: scripts that `--patch` edits where they stand, started as their users start them.

Random plans and places of a sweep, of the ten scripts in scripts/ and, where the checkout has them,
of Megatron's own examples. A script says in its second line on how many devices it runs, and with
which parameters: `# gate: 64 save logs`.
"""
# SPDX-License-Identifier: Apache-2.0

import os
import random
import re

import plans
from counts import HERE, Part, read
from launched import launched
from megatron_part import wanted_of

EXAMPLES = [
    ("gpt3/train_gpt3_175b_distributed.sh", 128, "save logs vocab merges data"),
    ("llama/train_llama3_8b_h100_fp8.sh", 8, ""),
    ("mixtral/train_mixtral_8x7b_distributed.sh", 32, "save tokenizer data"),
]
PLACES = 12  # of each sweep


def scripts(gate):
    """A copy of each script as it stands, the devices and the parameters that it takes."""
    found = [(f"{gate.trainers}/megatron/examples/{s}", gpus, given) for s, gpus, given in EXAMPLES]
    found.append((f"{gate.source}/docs/tutorials/pretrain.sh", 64, ""))
    for name in sorted(os.listdir(f"{HERE}/scripts")):
        with open(f"{HERE}/scripts/{name}") as file:
            gpus, given = re.search(r"^# gate: (\d+) ?(.*)$", file.read(), re.M).groups()
        found.append((f"{HERE}/scripts/{name}", int(gpus), given))
    os.makedirs(f"{gate.work}/scripts", exist_ok=True)
    for path, gpus, given in found:
        if not os.path.exists(path):
            continue
        with open(path) as file:
            # An argument that Megatron itself refuses: the shell splits its quotes.
            lines = [l for l in file if "--step-batch-size-schedule" not in l]
        copy = f"{gate.work}/scripts/{os.path.basename(path)}"
        with open(copy, "w") as file:
            file.writelines(lines)
        yield copy, gpus, given


def job_of(gate, part, script, gpus):
    """The plan that a script is read as, or None."""
    base = f"{gate.work}/{os.path.basename(script)[:-3]}.json"
    run = gate.weir("plan", script, "--from", "megatron", "--gpus", gpus, "-o", base)
    if run.returncode:
        part.fail(os.path.basename(script), "is not read: " + run.stderr.strip().splitlines()[-1])
        return None
    return base


def places(gate, base, gpus):
    """The best of a sweep beside the job."""
    name, plan = base[:-5], read(base)
    batch = plan["micro_batch_size"] * plan["microbatches"] * plan["dp"]
    given = {
        "--cluster": "dgx-h100",
        "--gpus": gpus,
        "--global-batch-size": batch,
        "--baseline": base,
        "--top": PLACES,
        "-o": f"{name}.sweep.json",
    }
    gate.weir("sweep", f"{name}.model.json", *(word for pair in given.items() for word in pair))
    for place in range(1, PLACES + 1):
        path = f"{name}-place{place}.json"
        made = gate.weir("plan", "--from", f"{name}.sweep.json", "--place", place, "-o", path)
        if made.returncode == 0:
            yield f"place{place}", path


def others(gate, base, gpus, count):
    """Random plans on as many devices."""
    name, plan, r = base[:-5], read(base), random.Random(os.path.basename(base))
    made = 0
    for number in range(8 * count):
        k, tp, cp = r.choice([1, 2, 4, 8]), r.choice([1, 2, 4, 8]), r.choice([1, 1, 2])
        v = r.choice([1, 1, 2]) if k > 1 else 1
        dp = gpus // (k * tp * cp)
        o = {
            "pp": k,
            "vpp": v,
            "tp": tp,
            "cp": cp,
            "dp": dp,
            "microbatches": r.choice([k, 2 * k, 4 * k]),
            "schedule": "interleaved-1f1b" if v > 1 else "1f1b",
            "dtype": plan["dtype"],
            "partition": "uniform",
            "seq-length": plan["seq_length"],
            "recompute": r.choice(["none", "selective", "full", "full:2"]),
            "attention": plan.get("attention", "unfused"),
            "zero": r.choice([0, 1, 1, 2, 3]) if dp * cp > 1 else 0,
        }
        o.update({"sequence-parallel": None} if tp > 1 and r.random() < 0.7 else {})
        o.update({"overlap-grad-reduce": None} if dp > 1 and r.random() < 0.5 else {})
        path = f"{name}-random{number}.json"
        if dp == 0 or made == count:
            continue
        if gate.weir("plan", f"{name}.model.json", *plans.words(o), "-o", path).returncode == 0:
            made += 1
            yield f"random{number}", path


def patched(gate, part, script, given, tag, plan):
    """A patched script as the judge's job and the fields that it shall have; None: refused."""
    name = os.path.basename(script)
    out = f"{gate.work}/patched/{name}-{tag}"
    said = part.exported(plan, out, "--to", "megatron", "--patch", script)
    if said is None:
        return None
    argv, env, world = launched(gate.work, out, f"bash {name} {given}")
    # Without replicas there is nothing to overlap, and what the script says of it stays.
    alone = read(plan)["dp"] * read(plan)["cp"] == 1
    kept = alone or "overlap_grad_reduce: the script's" in said
    wanted = wanted_of(read(plan), overlap=not kept)
    return {"id": f"{name}-{tag}", "argv": argv, "env": env, "world": world}, wanted


def run(gate, count, swept):
    """The job's own plan and `count` random ones of every script, or the places of a sweep of the
    first `swept` of them."""
    part, jobs, wanted = Part(gate, "places" if swept else "patch"), [], {}
    for number, (script, gpus, given) in enumerate(scripts(gate)):
        if swept and number >= swept:
            break
        base = job_of(gate, part, script, gpus)
        if base is None:
            continue
        chosen = places(gate, base, gpus) if swept else others(gate, base, gpus, count)
        for tag, plan in [*([] if swept else [("same", base)]), *chosen]:
            one = patched(gate, part, script, given, tag, plan)
            if one is not None:
                jobs.append(one[0])
                wanted[one[0]["id"]] = one[1]
    return part.judged("judge_megatron.py", jobs, wanted, f"{gate.trainers}/megatron")
