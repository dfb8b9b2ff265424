"""Megatron-LM: the launch line that an export prints."""
# SPDX-License-Identifier: Apache-2.0

from counts import Part, plans_in, read, stage_blocks
from launched import launched


def wanted_of(plan, overlap=True):
    """The fields that Megatron shall have understood."""
    zero, recompute = plan.get("zero", 0), plan.get("recompute", "none")
    chunks = plan["vpp"] if plan["vpp"] > 1 and plan["pp"] > 1 else None
    wanted = {
        "tensor_model_parallel_size": plan["tp"],
        "pipeline_model_parallel_size": plan["pp"],
        "context_parallel_size": plan["cp"],
        "data_parallel_size": plan["dp"],
        "expert_model_parallel_size": plan.get("ep", 1),
        "num_microbatches": plan["microbatches"],
        "virtual_pipeline_model_parallel_size": chunks,
        "micro_batch_size": plan["micro_batch_size"],
        "seq_length": plan["seq_length"],
        "use_megatron_fsdp": zero > 1,
        "bf16": plan["dtype"] == "bf16",
        "fp16": plan["dtype"] == "fp16",
        "sequence_parallel": plan.get("sequence_parallel", False),
    }
    # Among one replica's devices alone the state is whole either way, and a job may need the flag.
    if plan["dp"] * plan["cp"] > 1:
        # Muon's matrices are distributed whole, by another optimizer that it makes of the flag.
        whole = plan["optimizer"]["kind"] == "muon"
        wanted["use_distributed_optimizer"] = zero > 0 and not whole
        if whole:
            wanted["use_layer_wise_distributed_optimizer"] = zero > 0
    if recompute in ("none", "selective", "full"):
        wanted["recompute_granularity"] = None if recompute == "none" else recompute
    if overlap:
        wanted["overlap_grad_reduce"] = plan.get("overlap_grad_reduce", False)
    return wanted


def run(gate, folder):
    part, jobs, wanted = Part(gate, "megatron"), [], {}
    for name in plans_in(folder):
        path, out = f"{folder}/plans/{name}", f"{gate.work}/megatron/{name}"
        said = part.exported(path, out, "--to", "megatron")
        if said is None:
            continue
        line = next(l.strip() for l in said.split("launch, in")[1].splitlines()[1:])
        argv, env, world = launched(gate.work, out, line)
        plan = read(path)
        jobs.append({"id": name, "argv": argv, "env": env, "world": world})
        fused = plan.get("attention", "unfused") == "fused"
        wanted[name] = {
            **wanted_of(plan),
            "clip_grad": plan["optimizer"].get("clip_norm", 0.0),
            "lr": plan["optimizer"]["learning_rate"],
            "seed": plan["seed"],
            "attention_backend": "fused" if fused else "unfused",
        }
        if "boundary" not in said and "boundaries" not in said:
            blocks = stage_blocks(plan, folder)
            wanted[name]["blocks"] = [sum(blocks)] if plan["pp"] == 1 else blocks
    return part.judged("judge_megatron.py", jobs, wanted, f"{gate.trainers}/megatron")
