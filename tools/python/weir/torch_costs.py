# What was found, as weir.costs/1.
# SPDX-License-Identifier: Apache-2.0
import datetime
import os
import statistics

import torch

CORRECTIONS = ("f", "b", "i", "w", "r", "optimizer")


def versions(device, layers):
    """`layers`: "transformers 5.0", or those of Megatron."""
    text = f"PyTorch {torch.__version__}, {layers}, "
    if device.type == "cpu":
        return text + "gloo"
    nccl = ".".join(map(str, torch.cuda.nccl.version()))
    driver = torch._C._cuda_getDriverVersion()
    return (text + f"CUDA {torch.version.cuda}, driver of CUDA {driver // 1000}."
            f"{driver % 1000 // 10}, NCCL {nccl}")


def alone_over_busy(alone, busy, sizes):
    """By kind: seconds of all measured layers on a machine that is idle beside, over those on a
    busy one, the mean over micro-batch sizes."""
    ratios = dict.fromkeys(CORRECTIONS, 1.0)
    for kind in ("f", "b", "i", "w"):
        if any(kind not in of_key[batch] for of_key in busy.values() for batch in sizes):
            continue
        ratios[kind] = statistics.mean(
            sum(of_key[batch][kind] for of_key in alone.values())
            / sum(of_key[batch][kind] for of_key in busy.values()) for batch in sizes)
    ratios["r"] = ratios["f"]
    return ratios


def mean_by_key(keys, values):
    """Of layers that have the same key."""
    found = {}
    for key, value in zip(keys, values):
        found.setdefault(key, []).append(value)
    return {key: statistics.mean(alike) for key, alike in found.items()}


def alone_over_busy_update(alone, busy, job, tied):
    """Seconds of the whole model's update in one stage on a machine that is idle beside, over those
    of its layers in several. One stage updates a tied weight once."""
    one, several = (mean_by_key(job["keys"], updates) for updates in (alone, busy))
    once = sum(one[key] for key in job["all_keys"]) - (alone[-1] if tied else 0.0)
    return once / sum(several[key] for key in job["all_keys"])


def costs_of(job, found, cuda):
    """What was found, as weir.costs/1."""
    updates, layers = mean_by_key(job["keys"], found["updates"]), []
    for key in dict.fromkeys(job["keys"]):
        times = []
        for batch, at in found["passes"][key].items():
            times.append({"micro_batch_size": int(batch), "f_s": at["f"], "i_s": at.get("i"),
                          "w_s": at.get("w"), "b_s": at["b"], "spread": at["spread"],
                          "scratch_bytes": 0, "kept_bytes": at["kept"]})
        layers.append({"key": key, "optimizer_s": updates[key], "times": times})
    latency, bandwidth = found["link"]
    gap, end = found["gaps"]
    today = datetime.datetime.now(datetime.timezone.utc).date()
    return {"schema": "weir.costs/1", "basis": "measured", "machine": job["machine"],
            "backend": "cuda" if cuda else "cpu",
            "origin": f"weir.profile_torch, {today}, {job['ranks']} devices busy, layers of "
                      f"{job['layers']}, {found['versions']}",
            "seq_length": job["seq_length"], "dtype": job["dtype"],
            "link": {"latency_s": latency, "bandwidth_bytes_per_s": bandwidth},
            "host_overhead_s": gap, "step_overhead_s": end, "first_backward_in_w": True,
            "alone": found["alone"],
            "correction": dict.fromkeys(CORRECTIONS, 1.0), "by_size": [], "fixed": 1.0,
            "interval": None,
            "range": None, "jitter": {}, "disturbance": job["disturbance"],
            "overlap": {"compute_slowdown": 0, "transfer_slowdown": 0}, "layers": layers}


def write_whole(file, text):
    """To a file beside it, then renamed: never half a file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(file.name + ".tmp")
    beside.write_text(text)
    os.replace(beside, file)
