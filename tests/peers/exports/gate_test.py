#!/usr/bin/env python3
"""What `weir export` writes starts in the trainers themselves, or is refused by the name of a row.

    gate_test.py SOURCE WEIR [PART...]

Parts: megatron, torchtitan, torchtitan-0.2, deepspeed, torch, patch; words that begin with -- go to
`weir export` (--allow-other-schedule).

WEIR_TRAINERS names a folder of checkouts (megatron, torchtitan, torchtitan-0.2, deepspeed); a part
whose checkout is not there is left out, and without any the test is skipped (77). WEIR_GATE_PLANS:
plans a trainer, 60 where it is not set, or a folder of them (plans/*.json). No trainer's code is
here, and none needs a GPU.
"""
# SPDX-License-Identifier: Apache-2.0

import collections
import json
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import plans  # noqa: E402

SOURCE, WEIR = sys.argv[1:3]
TRAINERS = os.environ.get("WEIR_TRAINERS", "")
COUNT = os.environ.get("WEIR_GATE_PLANS", "60")
# A launcher that writes down what it is told, in the place of torchrun.
LAUNCHER = f"""#!{sys.executable}
import json, os, sys
json.dump([sys.argv[1:], dict(os.environ)], open(os.environ["GATE_OUT"], "w"))
"""
SLURM = """#!/bin/sh
while [ $# -gt 0 ]; do case "$1" in torchrun|bash|python*) exec "$@";; *) shift;; esac; done
"""


def fake(work):
    os.makedirs(f"{work}/fake", exist_ok=True)
    for name, text in (("torchrun", LAUNCHER), ("srun", SLURM), ("module", "#!/bin/sh\n")):
        with open(f"{work}/fake/{name}", "w") as file:
            file.write(text)
        os.chmod(f"{work}/fake/{name}", 0o755)
    return f"{work}/fake"


def launched(work, folder, line):
    """What a line starts: the program's arguments, the variables it sets, and the devices."""
    out = f"{work}/launched.json"
    if os.path.exists(out):
        os.unlink(out)
    outer = {
        "PATH": f"{fake(work)}:/usr/bin:/bin",
        "GATE_OUT": out,
        "HOME": work,
        "NODE_RANK": "0",
        "MASTER_ADDR": "localhost",
    }
    run = subprocess.run(
        ["bash", "-c", line], cwd=folder, env=outer, capture_output=True, text=True, timeout=60
    )
    if not os.path.exists(out):
        raise RuntimeError(f"{line}: {run.stderr[-300:]}")
    with open(out) as file:
        argv, env = json.load(file)
    program = next(i for i, word in enumerate(argv) if word.endswith(".py"))
    joined = " ".join(argv[:program]).replace("-", "_").replace("=", " ")
    numbers = [
        int(re.search(rf"__{name} (\d+)", joined).group(1)) for name in ("nproc_per_node", "nnodes")
    ]
    kept = {
        k: v for k, v in env.items() if k not in outer and k not in ("PWD", "SHLVL", "_", "OLDPWD")
    }
    return argv[program + 1 :], kept, numbers[0] * numbers[1]


def weir(*words):
    return subprocess.run(
        [WEIR, "-q", *map(str, words)], capture_output=True, text=True, timeout=600
    )


class Part:
    """Counts of one trainer: what started, what was refused and by which row, and what failed."""

    def __init__(self, name):
        self.name, self.started, self.refused, self.failed = name, 0, collections.Counter(), {}

    def exported(self, plan, out, *more):
        """The lines of an export, or None where it was refused."""
        run = weir("export", plan, "-o", out, *more)
        if run.returncode == 0:
            return run.stdout
        said = run.stderr.strip().splitlines()[-1]
        row = re.search(r"\(row ([^)]*)\)", said)
        self.refused[row.group(1) if row else "its words: " + said.split(": ", 2)[-1][:70]] += 1
        return None

    def judged(self, verdict, wanted):
        if verdict["error"] is not None:
            return self.fail(verdict["id"], verdict["error"].splitlines()[0][:160])
        wrong = {
            k: (v, verdict["args"].get(k)) for k, v in wanted.items() if verdict["args"].get(k) != v
        }
        if wrong:
            return self.fail(verdict["id"], f"other values, plan and trainer: {wrong}")
        self.started += 1

    def fail(self, plan, why):
        self.failed.setdefault(re.sub(r"\d+", "#", why), []).append(plan)

    def told(self):
        total = self.started + sum(self.refused.values()) + sum(map(len, self.failed.values()))
        print(
            f"{self.name}: {self.started} of {total} start, {sum(self.refused.values())} refused, "
            f"{total - self.started - sum(self.refused.values())} fail"
        )
        for row, count in self.refused.most_common():
            print(f"  refused {count:4} {row}")
        for why, ids in self.failed.items():
            print(f"  FAILED  {len(ids):4} {why}, as {ids[:3]}")
        sys.stdout.flush()
        return not self.failed


def judge(script, jobs, *more):
    text = "".join(json.dumps(job) + "\n" for job in jobs)
    run = subprocess.run(
        [sys.executable, "-W", "ignore", os.path.join(HERE, script), *more],
        input=text,
        text=True,
        capture_output=True,
    )
    if run.returncode:
        raise RuntimeError(run.stderr[-2000:])
    return [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]


def read(path):
    with open(path) as file:
        return json.load(file)


def stage_blocks(plan, layers):
    bounds = [0, *plan.get("boundaries", []), layers + 3]
    return [sum(1 <= layer <= layers for layer in range(a, b)) for a, b in zip(bounds, bounds[1:])]


def layers_of(plan, folder):
    model = read(os.path.normpath(f"{folder}/plans/{plan['model']}"))
    if "layers" in model:
        return len(model["layers"]) - 3
    return model.get("num_hidden_layers", model.get("n_layer"))


def megatron_wanted(plan, overlap=True):
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
        "use_distributed_optimizer": zero > 0,
        "use_megatron_fsdp": zero > 1,
        "bf16": plan["dtype"] == "bf16",
        "fp16": plan["dtype"] == "fp16",
        "sequence_parallel": plan.get("sequence_parallel", False),
    }
    if recompute in ("none", "selective", "full"):
        wanted["recompute_granularity"] = None if recompute == "none" else recompute
    if overlap:
        wanted["overlap_grad_reduce"] = plan.get("overlap_grad_reduce", False)
    return wanted


def megatron(work, folder, more):
    part, jobs, wanted = Part(f"megatron {' '.join(more)}".strip()), [], {}
    for name in sorted(os.listdir(f"{folder}/plans")):
        path, out = f"{folder}/plans/{name}", f"{work}/megatron/{name}"
        said = part.exported(path, out, "--to", "megatron", *more)
        if said is None:
            continue
        line = next(l.strip() for l in said.split("launch, in")[1].splitlines()[1:])
        argv, env, world = launched(work, out, line)
        plan = read(path)
        jobs.append({"id": name, "argv": argv, "env": env, "world": world})
        wanted[name] = {
            **megatron_wanted(plan),
            "clip_grad": plan["optimizer"].get("clip_norm", 0.0),
            "lr": plan["optimizer"]["learning_rate"],
            "seed": plan["seed"],
        }
        fused = plan.get("attention", "unfused") == "fused"
        wanted[name]["attention_backend"] = "fused" if fused else "unfused"
        if "boundary" not in said and "boundaries" not in said:
            blocks = stage_blocks(plan, layers_of(plan, folder))
            wanted[name]["blocks"] = [sum(blocks)] if plan["pp"] == 1 else blocks
    for verdict in judge("judge_megatron.py", jobs, f"{TRAINERS}/megatron"):
        part.judged(verdict, wanted[verdict["id"]])
    return part.told()


def torchtitan(work, folder, more, version):
    part, jobs, wanted = Part(f"torchtitan {version} {' '.join(more)}".strip()), [], {}
    for name in sorted(os.listdir(f"{folder}/plans")):
        path, out = f"{folder}/plans/{name}", os.path.abspath(f"{work}/titan-{version}/{name}")
        said = part.exported(
            path, out, "--to", "torchtitan", "--torchtitan-version", version, *more
        )
        if said is None:
            continue
        if "register one called weir" in said:  # is the user's to do
            part.refused["its words: no flavour of the model's sizes"] += 1
            continue
        words = shlex.split(next(l for l in said.splitlines() if "torchrun" in l))
        world = 1
        for option in ("--nproc_per_node", "--nnodes"):
            world *= int(words[words.index(option) + 1])
        plan = read(path)
        jobs.append(
            {
                "id": name,
                "folder": out,
                "argv": words[words.index("torchtitan.train") + 1 :],
                "world": world,
            }
        )
        wanted[name] = {
            "pp": plan["pp"],
            "tp": plan["tp"],
            "cp": plan["cp"],
            "seed": plan["seed"],
            "clip": plan["optimizer"].get("clip_norm", 0.0) or 1e9,
        }
        if plan["pp"] > 1:
            blocks, k = stage_blocks(plan, layers_of(plan, folder)), plan["pp"]
            ranks = [[s for s in range(len(blocks)) if s % k == r] for r in (0, k - 1)]
            if plan["schedule"] in ("zb-v", "v-half", "v-min", "dualpipev"):
                ranks = [[0, 2 * k - 1], [k - 1, k]]
            wanted[name].update(
                stages=[[blocks[s] for s in mine] for mine in ranks],
                microbatches=plan["microbatches"],
            )
    checkout = f"{TRAINERS}/torchtitan" + ("" if version == "main" else "-0.2")
    for verdict in judge("judge_torchtitan.py", jobs, checkout, version):
        part.judged(verdict, wanted[verdict["id"]])
    return part.told()


DEEPSPEED = """
import contextlib, io, json, os, sys
os.environ["DS_ACCELERATOR"] = "cpu"
sys.path.insert(0, sys.argv[1])
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    import deepspeed
    from deepspeed.runtime import config as runtime
deepspeed.comm.get_rank = runtime.dist.get_rank = lambda *_, **__: 0
class Replicas:
    def __init__(self, count): self.count = count
    def get_data_parallel_world_size(self): return self.count
    def get_model_parallel_world_size(self): return 1
for line in sys.stdin:
    job = json.loads(line)
    error, found = None, {}
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            c = runtime.DeepSpeedConfig(job["config"], Replicas(job["dp"]))
        found = {"batch": c.train_batch_size, "micro": c.train_micro_batch_size_per_gpu,
                 "accumulation": c.gradient_accumulation_steps, "clip": c.gradient_clipping,
                 "lr": c.optimizer_params["lr"], "zero": c.zero_optimization_stage}
        if job["pp"] > 1 and found["zero"] > 1:
            raise ValueError("the pipeline engine takes ZeRO 1 at most")
        compile(open(job["script"]).read(), job["script"], "exec")
    except BaseException as raised:
        error = f"{type(raised).__name__}: {raised}"
    print(json.dumps({"id": job["id"], "error": error, "args": found}), flush=True)
"""


def deepspeed(work, folder, more):
    part, jobs, wanted = Part(f"deepspeed {' '.join(more)}".strip()), [], {}
    judge_file = f"{work}/judge_deepspeed.py"
    with open(judge_file, "w") as file:
        file.write(DEEPSPEED)
    for name in sorted(os.listdir(f"{folder}/plans")):
        path, out = f"{folder}/plans/{name}", f"{work}/deepspeed/{name}"
        if part.exported(path, out, "--to", "deepspeed", *more) is None:
            continue
        plan, o = read(path), read(path)["optimizer"]
        jobs.append(
            {
                "id": name,
                "config": f"{out}/ds_config.json",
                "script": f"{out}/pipeline.py",
                "dp": plan["dp"],
                "pp": plan["pp"],
            }
        )
        wanted[name] = {
            "batch": plan["micro_batch_size"] * plan["microbatches"] * plan["dp"],
            "micro": plan["micro_batch_size"],
            "accumulation": plan["microbatches"],
            "clip": o.get("clip_norm", 0.0),
            "lr": o["learning_rate"],
            "zero": min(plan.get("zero", 0), 1),
        }
    for verdict in judge(judge_file, jobs, f"{TRAINERS}/deepspeed"):
        part.judged(verdict, wanted[verdict["id"]])
    return part.told()


# One step in the exported script's own Trainer: the loss, and each layer's gradient as its norm.
GRADIENTS = """
import torch, torch.distributed as dist, pipeline
dist.init_process_group("gloo")
trainer = pipeline.Trainer(torch.device("cpu"))
value = trainer.step(*next(pipeline.batches(torch.device("cpu"))))
said = [] if value is None else [f"loss {value.item():.6f}"]
for layer in range(pipeline.BOUNDS[-1]):
    module = trainer.layer(layer)
    if module is not None:
        for name, weight in module.named_parameters():
            said.append(f"grad {layer}.{name} {weight.grad.double().norm().item():.9e}")
print("\\n".join(said), flush=True)
dist.barrier()
dist.destroy_process_group()
"""
TORCH = [
    ("gpt2-mini", 1, 1, "gpipe"),
    ("gpt2-mini", 2, 1, "1f1b"),
    ("gpt2-mini", 2, 2, "interleaved-1f1b"),
    ("gpt2-mini", 2, 2, "zb-v"),
    ("gpt2-mini", 4, 1, "zb-h1"),
    ("gpt2-mini", 2, 2, "dualpipev"),
    ("gpt2-mini", 2, 2, "hanayo"),
    ("gpt2-mini", 2, 2, "v-half"),
    ("gpt2-mini", 2, 2, "v-min"),
    ("gpt2-mini", 1, 2, "interleaved-1f1b"),
    ("llama-10m", 1, 1, "gpipe"),
    ("llama-10m", 2, 2, "looped-bfs"),
    ("llama-10m", 2, 2, "dualpipev"),
    ("llama-10m", 3, 1, "gpipe"),
    ("llama-10m", 2, 2, "hanayo"),
    ("llama-10m", 2, 2, "interleaved-zb"),
    ("llama-10m", 4, 1, "1f1b-eager"),
    ("llama-10m", 2, 2, "v-half"),
    ("gpt2-mini", 2, 1, "dualpipe"),
]


def torch_run(folder, ranks, script):
    env = dict(os.environ, OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")
    run = subprocess.run(
        [
            sys.executable,
            "-W",
            "ignore",
            "-m",
            "torch.distributed.run",
            "--nproc_per_node",
            str(ranks),
            "--rdzv_backend",
            "c10d",
            "--rdzv_endpoint",
            "127.0.0.1:0",
            script,
        ],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    if run.returncode:
        error = [l for l in run.stderr.splitlines() if re.search(r"\w+(Error|Exception)\b:", l)]
        raise RuntimeError((error or [run.stderr[-300:]])[-1])
    return {
        key: float(value) for key, value in re.findall(r"^(loss|grad \S+) (\S+)$", run.stdout, re.M)
    }


def torch(work, more):
    """Losses and gradients are those of one rank, to the rounding of sums in another order."""
    part, alone = Part("torch"), {}
    for model, ranks, chunks, order in TORCH:
        name = f"{model}-K{ranks}v{chunks}-{order}"
        config = read(f"{SOURCE}/tools/examples/models/{model}.json")
        config = {k: 0.0 if k.endswith("pdrop") else v for k, v in config.items()}
        out = f"{work}/torch/{name}"
        os.makedirs(out, exist_ok=True)
        with open(f"{out}/model.json", "w") as file:
            json.dump(config, file)
        made = weir(
            "plan",
            f"{out}/model.json",
            "-K",
            ranks,
            "-v",
            chunks,
            "-M",
            8,
            "--schedule",
            order,
            "--seq-length",
            32,
            "--optimizer",
            "sgd",
            "--learning-rate",
            0.01,
            "-o",
            f"{out}/plan.json",
        )
        if made.returncode:
            part.refused["weir plan: " + made.stderr.strip().splitlines()[-1][-80:]] += 1
            continue
        if part.exported(f"{out}/plan.json", out, "--to", "torch", *more) is None:
            continue
        with open(f"{out}/gradients.py", "w") as file:
            file.write(GRADIENTS)
        try:
            found = torch_run(out, ranks, "gradients.py")
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            part.fail(name, str(error)[:160])
            continue
        base = alone.setdefault(model, found)
        tolerance = 1e-4  # of fp32 sums over 8 micro-batches in another order
        wrong = [
            k
            for k in base
            if abs(found.get(k, 1e30) - base[k]) > tolerance * max(abs(base[k]), 1e-3)
        ]
        if wrong or len(found) < len(base):
            part.fail(
                name, f"not as on one rank: {[(k, base[k], found.get(k)) for k in wrong[:2]]}"
            )
        else:
            part.started += 1
    return part.told()


def scripts(work):
    """Public scripts as they stand, with devices and the parameters that they take."""
    examples = f"{TRAINERS}/megatron/examples"
    found = [
        (f"{examples}/gpt3/train_gpt3_175b_distributed.sh", 128, "save logs vocab merges data"),
        (f"{examples}/llama/train_llama3_8b_h100_fp8.sh", 8, ""),
        (f"{examples}/mixtral/train_mixtral_8x7b_distributed.sh", 32, "save tokenizer data"),
        (f"{SOURCE}/docs/tutorials/pretrain.sh", 64, ""),
    ]
    for path, gpus, given in found:
        name = os.path.basename(path)
        os.makedirs(f"{work}/scripts", exist_ok=True)
        with open(path) as file:
            text = file.read()
        # Refused by Megatron itself, whose shell splits its quotes.
        text = "".join(l for l in text.splitlines(True) if "--step-batch-size-schedule" not in l)
        with open(f"{work}/scripts/{name}", "w") as file:
            file.write(text)
        yield f"{work}/scripts/{name}", gpus, given


def changed_plans(work, script, gpus, base, each):
    """The job's own plan, places of a sweep beside it, and random ones on as many devices."""
    name, model, plan = os.path.basename(script)[:-3], base[:-5] + ".model.json", read(base)
    yield "same", base
    batch = plan["micro_batch_size"] * plan["microbatches"] * plan["dp"]
    swept = f"{work}/{name}.sweep.json"
    weir(
        "sweep",
        model,
        "--cluster",
        "dgx-h100",
        "--gpus",
        gpus,
        "--global-batch-size",
        batch,
        "--baseline",
        base,
        "-o",
        swept,
    )
    for place in range(1, 13):
        path = f"{work}/{name}-place{place}.json"
        if weir("plan", "--from", swept, "--place", place, "-o", path).returncode == 0:
            yield f"place{place}", path
    r, made, tries = random.Random(name), 0, 0
    while made < each and tries < 8 * each:
        tries += 1
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
        path = f"{work}/{name}-random{tries}.json"
        if dp and weir("plan", model, *plans.words(o), "-o", path).returncode == 0:
            made += 1
            yield f"random{tries}", path


def patch(work, more):
    part, jobs, wanted = Part(f"patch {' '.join(more)}".strip()), [], {}
    for script, gpus, given in scripts(work):
        name = os.path.basename(script)
        base = f"{work}/{name[:-3]}.json"
        run = weir("plan", script, "--from", "megatron", "--gpus", gpus, "-o", base)
        if run.returncode:
            part.fail(name, "is not read: " + run.stderr.strip().splitlines()[-1])
            continue
        for tag, path in changed_plans(work, script, gpus, base, 20):
            out = f"{work}/patched/{name}-{tag}"
            said = part.exported(path, out, "--to", "megatron", "--patch", script, *more)
            if said is None:
                continue
            argv, env, world = launched(work, out, f"bash {name} {given}")
            jobs.append({"id": f"{name}-{tag}", "argv": argv, "env": env, "world": world})
            kept = "overlap_grad_reduce: the script's" in said
            wanted[jobs[-1]["id"]] = megatron_wanted(read(path), overlap=not kept)
    for verdict in judge("judge_megatron.py", jobs, f"{TRAINERS}/megatron"):
        part.judged(verdict, wanted[verdict["id"]])
    return part.told()


def main():
    parts = [w for w in sys.argv[3:] if not w.startswith("--")]
    more = [w for w in sys.argv[3:] if w.startswith("--")]
    parts = parts or ["megatron", "torchtitan", "torchtitan-0.2", "deepspeed", "torch", "patch"]
    there = {p: os.path.isdir(f"{TRAINERS}/{'megatron' if p == 'patch' else p}") for p in parts}
    there["torch"] = "torch" in parts and bool(TRAINERS)
    try:
        import torch as _  # noqa: F401
    except ImportError:
        there = {}
    if not any(there.values()):
        print(
            "skipped: WEIR_TRAINERS names no trainers' sources, or PyTorch is not here"
        )
        sys.exit(77)
    with tempfile.TemporaryDirectory() as made:
        work = os.environ.get("WEIR_GATE_WORK", made)
        os.makedirs(work, exist_ok=True)
        folder, titans = f"{work}/all", f"{work}/llama"
        if COUNT.isdigit():
            plans.write(WEIR, folder, int(COUNT), 7)
            plans.write(WEIR, titans, int(COUNT), 11, ["llama-3-8b"])
        else:
            folder = titans = COUNT
        run = {
            "megatron": lambda: megatron(work, folder, more),
            "patch": lambda: patch(work, more),
            "torchtitan": lambda: torchtitan(work, titans, more, "main"),
            "torch": lambda: torch(work, more),
            "torchtitan-0.2": lambda: torchtitan(work, titans, more, "0.2"),
            "deepspeed": lambda: deepspeed(work, folder, more),
        }
        good = [run[p]() for p in parts if there.get(p)]
    sys.exit(0 if all(good) else 1)


main()
