"""DeepSpeed: the JSON by its own reader, and the script as far as Python reads it."""
# SPDX-License-Identifier: Apache-2.0

from counts import Part, plans_in, read


def wanted_of(plan):
    o = plan["optimizer"]
    return {
        "batch": plan["micro_batch_size"] * plan["microbatches"] * plan["dp"],
        "micro": plan["micro_batch_size"],
        "accumulation": plan["microbatches"],
        "clip": o.get("clip_norm", 0.0),
        "lr": o["learning_rate"],
        "zero": min(plan.get("zero", 0), 1),
        "bf16": plan["dtype"] == "bf16",
        "fp16": plan["dtype"] == "fp16",
    }


def run(gate, folder):
    part, jobs, wanted = Part(gate, "deepspeed"), [], {}
    for name in plans_in(folder):
        path, out = f"{folder}/plans/{name}", f"{gate.work}/deepspeed/{name}"
        if part.exported(path, out, "--to", "deepspeed") is None:
            continue
        plan = read(path)
        files = {"config": f"{out}/ds_config.json", "script": f"{out}/pipeline.py"}
        jobs.append({"id": name, **files, "dp": plan["dp"], "pp": plan["pp"]})
        wanted[name] = wanted_of(plan)
    return part.judged("judge_deepspeed.py", jobs, wanted, f"{gate.trainers}/deepspeed")
