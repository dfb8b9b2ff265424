"""torchtitan: its registry (main) and its TOML (0.2), by the launch line that an export prints."""
# SPDX-License-Identifier: Apache-2.0

import os
import shlex

from counts import Part, plans_in, read, stage_blocks


def stages_of_ends(plan, blocks):
    """Blocks of each stage that the first and the last rank have."""
    ranks = plan["pp"]
    if plan["schedule"] in ("zb-v", "v-half", "v-min", "dualpipev"):
        mine = [[0, 2 * ranks - 1], [ranks - 1, ranks]]
    else:
        mine = [[s for s in range(len(blocks)) if s % ranks == r] for r in (0, ranks - 1)]
    return [[blocks[s] for s in stages] for stages in mine]


def wanted_of(plan, folder):
    wanted = {
        "pp": plan["pp"],
        "tp": plan["tp"],
        "cp": plan["cp"],
        "seed": plan["seed"],
        "clip": plan["optimizer"].get("clip_norm", 0.0) or 1e9,
        "half": plan["dtype"] in ("bf16", "fp16"),
    }
    if plan["pp"] > 1:
        wanted["stages"] = stages_of_ends(plan, stage_blocks(plan, folder))
        wanted["microbatches"] = plan["microbatches"]
    return wanted


def run(gate, folder, version):
    part, jobs, wanted = Part(gate, f"torchtitan {version}"), [], {}
    for name in plans_in(folder):
        path, out = f"{folder}/plans/{name}", os.path.abspath(f"{gate.work}/titan-{version}/{name}")
        said = part.exported(path, out, "--to", "torchtitan", "--torchtitan-version", version)
        if said is None:
            continue
        if "register one called weir" in said:  # is the user's to do
            part.refused["its words: no flavour of the model's sizes"] += 1
            continue
        words = shlex.split(next(l for l in said.splitlines() if "torchrun" in l))
        world = 1
        for option in ("--nproc_per_node", "--nnodes"):
            world *= int(words[words.index(option) + 1])
        argv = words[words.index("torchtitan.train") + 1 :]
        jobs.append({"id": name, "folder": out, "argv": argv, "world": world})
        wanted[name] = wanted_of(read(path), folder)
    checkout = f"{gate.trainers}/torchtitan" + ("" if version == "main" else "-0.2")
    return part.judged("judge_torchtitan.py", jobs, wanted, checkout, version)
