# What was found, as weir.costs/1.
# SPDX-License-Identifier: Apache-2.0
import datetime
import os
import statistics

import torch
import transformers

CORRECTIONS = ("f", "b", "i", "w", "r", "optimizer")


def versions(device):
    text = f"PyTorch {torch.__version__}, transformers {transformers.__version__}, "
    if device.type == "cpu":
        return text + "gloo"
    nccl = ".".join(map(str, torch.cuda.nccl.version()))
    driver = torch._C._cuda_getDriverVersion()
    return (text + f"CUDA {torch.version.cuda}, driver of CUDA {driver // 1000}."
            f"{driver % 1000 // 10}, NCCL {nccl}")


def alone_over_busy(alone, busy, batch):
    """By kind: seconds of all measured layers on a machine that is idle beside, over those on a
    busy one."""
    ratios = dict.fromkeys(CORRECTIONS, 1.0)
    for kind in ("f", "b", "i", "w"):
        both = [(alone[key][batch], busy[key][batch]) for key in busy]
        if all(kind in one and kind in other for one, other in both):
            ratios[kind] = (sum(one[kind] for one, _ in both)
                            / sum(other[kind] for _, other in both))
    ratios["r"] = ratios["f"]
    return ratios


def costs_of(job, found, cuda):
    """What was found, as weir.costs/1."""
    updates = {}
    for key, time in zip(job["keys"], found["updates"]):
        updates.setdefault(key, []).append(time)
    layers = []
    for key in dict.fromkeys(job["keys"]):
        times = []
        for batch, at in found["passes"][key].items():
            times.append({"micro_batch_size": int(batch), "f_s": at["f"], "i_s": at.get("i"),
                          "w_s": at.get("w"), "b_s": at["b"], "spread": at["spread"],
                          "scratch_bytes": 0, "kept_bytes": at["kept"]})
        layers.append({"key": key, "optimizer_s": statistics.mean(updates[key]), "times": times})
    latency, bandwidth = found["link"]
    gap, end = found["gaps"]
    today = datetime.datetime.now(datetime.timezone.utc).date()
    return {"schema": "weir.costs/1", "basis": "measured", "machine": job["machine"],
            "backend": "cuda" if cuda else "cpu",
            "origin": f"weir.profile_torch, {today}, {job['ranks']} devices busy, layers of "
                      f"{job['layers']}, {found['versions']}",
            "seq_length": job["seq_length"], "dtype": job["dtype"],
            "link": {"latency_s": latency, "bandwidth_bytes_per_s": bandwidth},
            "host_overhead_s": gap, "step_overhead_s": end, "alone": found["alone"],
            "correction": dict.fromkeys(CORRECTIONS, 1.0), "by_size": [], "interval": None,
            "range": None, "jitter": {},
            "overlap": {"compute_slowdown": 0, "transfer_slowdown": 0}, "layers": layers}


def write_whole(file, text):
    """To a file beside it, then renamed: never half a file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(file.name + ".tmp")
    beside.write_text(text)
    os.replace(beside, file)
