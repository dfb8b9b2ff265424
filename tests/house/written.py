"""What the commands print and write, every schema of docs/formats.md at least once."""
# SPDX-License-Identifier: Apache-2.0
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

SOURCES, WEIR = Path(sys.argv[1]), sys.argv[2]
EXAMPLES = SOURCES / "tools/examples"
CLUSTER = EXAMPLES / "clusters/dgx-h100.json"


def weir(folder, *arguments, code=0):
    done = subprocess.run([WEIR, *map(str, arguments)], cwd=folder, capture_output=True, text=True)
    if done.returncode != code:
        sys.exit(
            f"weir {' '.join(map(str, arguments))}: exit {done.returncode}\n"
            f"{done.stdout}{done.stderr}"
        )
    return done.stdout


TINY = {
    "model_type": "gpt2",
    "architectures": ["GPT2LMHeadModel"],
    "vocab_size": 256,
    "n_positions": 16,
    "n_embd": 16,
    "n_layer": 2,
    "n_head": 2,
}

MEGATRON = """--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16
--max-position-embeddings 16
--vocab-size 256 --make-vocab-size-divisible-by 1 --micro-batch-size 2 --global-batch-size 16
--overlap-moe-expert-parallel-comm --pipeline-model-parallel-size 2 --lr 1e-4
"""


def nccl_tests():
    """sendrecv of two GPUs: 20 us up to 64 KiB, from there 4 us + size / 100 GB/s."""
    lines = ["# Collective test starting: sendrecv_perf",
             "#  Rank  0 Group  0 Pid 1 on a device  0 [0000:1b:00] NVIDIA H100 80GB HBM3",
             "#  Rank  1 Group  0 Pid 2 on a device  1 [0000:1c:00] NVIDIA H100 80GB HBM3",
             "#       size         count      type     time   algbw   busbw  #wrong",
             "#        (B)    (elements)               (us)  (GB/s)  (GB/s)        "]
    for power in range(10, 31):
        size = 2**power
        time = 20 if size <= 65536 else 24 + size / 100e3
        lines.append(f"{size} {size // 4} float {time:.2f} 1.00 1.00 0")
    return "\n".join(lines) + "\n"


def timeline(folder):
    """Two ranks, four micro-batches, 1F1B; the last backward of iteration 3 is held up."""
    folder.mkdir()
    config = {"pp_size": 2, "vp_size": 1, "num_mbs": 4}
    (folder / "config.json").write_text(json.dumps(config))
    for rank, order in enumerate(("F0 F1 B0 F2 B1 F3 B2 B3", "F0 B0 F1 B1 F2 B2 F3 B3")):
        iterations = {}
        for iteration in (1, 2, 3):
            times = {f"{kind}_{end}": [] for kind in ("fwd", "bwd") for end in ("start", "end")}
            for place, action in enumerate(order.split()):
                kind = "fwd" if action[0] == "F" else "bwd"
                times[kind + "_start"].append(10 * (place + rank))
                times[kind + "_end"].append(10 * (place + rank + 1))
            times["bwd_end"][-1] += 100 * (iteration == 3)
            iterations[iteration] = {"total": 200, "memory": 1.5, **times}
        (folder / f"pp_rank_{rank}.json").write_text(json.dumps(iterations))


def of_models_and_schedules(folder, printed):
    yield printed("doctor")
    refused = subprocess.run([WEIR, "model", "none.json", "--json"], cwd=folder,
                             capture_output=True, text=True)
    yield json.loads(refused.stderr)
    yield printed("model", "tiny.json")
    yield printed("model", "tiny.json", "--kernels", "--gpu", "h100", "--dtype", "bf16")
    yield printed("model", "--layout", EXAMPLES / "layouts/two-layer.json", "--run", "--workers", 2,
                  "--rounds", 1)
    yield printed("model", "tiny.json", "--rules", "batch:d,heads:m,rows:m,ffn:m", "-b", 4,
                  "--mesh", "d=2,m=2", "--cluster", CLUSTER, "--program", "program.json")
    yield printed("model", "--layout", "program.json")
    yield printed("model", "tiny.json", "--devices", 4, "--cluster", CLUSTER, "-b", 4)
    yield printed("layout", "program.json", "--devices", 4, "--cluster", CLUSTER,
                  "--rules", "batch:d,heads:m,rows:m")
    yield printed("layout", EXAMPLES / "layouts/recurrent.json", "--run", "--workers", 1,
                  "--rounds", 1)
    yield printed("schedule", "--list")
    yield printed("schedule", "1f1b", "-K", 2, "-M", 2, "--svg", "drawn.svg")
    yield printed("schedule", "1f1b", "zb-v", "-K", 2, "-M", 4, "--svg", "several.svg")
    yield printed("schedule", "dualpipe", "--grid", "K=2..3,M=4", "--prove")
    yield printed("schedule", "1f1b", "--grid", "K=2,M=2", "--prove")
    yield printed("reproduce", "gpipe-throughput", "vtrain", "--csv", "reproduced.csv")
    some = folder / "measured"  # of thousands of runs a few
    some.mkdir()
    for table in ("sailor_validation", "torchtitan"):
        text = (EXAMPLES / f"measured/{table}.csv").read_text()
        (some / f"{table}.csv").write_text(text)
    yield printed("reproduce", "--cross-validate", "--published", some, "--csv", "judged.csv",
                  "--errors", "errors.csv")


def of_plans(folder, printed):
    weir(folder, "plan", "tiny.json", "-K", 2, "-M", 4, "-o", "plan.json")
    weir(folder, "plan", "tiny.json", "-K", 2, "-M", 8, "-b", 2, "--schedule", "gpipe",
         "--recompute", "full", "-o", "gpipe.json")
    weir(folder, "plan", "tiny.json", "-K", 2, "-M", 4, "--dp", 2, "--tp", 2, "--sequence-parallel",
         "--zero", 1, "--attention", "fused", "--optimizer", "sgd", "-o", "split.json")
    weir(folder, "plan", "tiny.json", "-K", 2, "-M", 4, "--dp", 2, "--overlap-grad-reduce", "-o",
         "replicas.json")
    for plan in ("plan", "gpipe", "split", "replicas"):
        yield json.loads((folder / f"{plan}.json").read_text())
    yield printed("plan", "--from", "megatron", "job.args", "--dp", 2, "-o", "imported.json")
    yield json.loads((folder / "imported.model.json").read_text())
    yield printed("export", "plan.json", "--to", "torch", "-o", "exported")
    yield printed("page", "-o", "page.html")
    weir(folder, "-q", "sweep", "tiny.json", "-K", 1, "-M", 2, "--report", "found.html")
    yield printed("reports", "found.html")
    page = (folder / "found.html").read_text()
    yield json.loads(page.split('id="report">')[1].split("</script>")[0])
    (folder / "other.args").write_text(MEGATRON + " --recompute-activations\n")
    yield printed("export", "imported.json", "--patch", "other.args")
    # A job that fits, with its optimizer's state with the host too; one that a change makes fit,
    # and one that needs more devices.
    away = json.loads((folder / "imported.json").read_text()) | {"offload_optimizer": 1}
    (folder / "away.json").write_text(json.dumps(away))
    yield printed("fits", "away.json", "--cluster", "dgx-h100")
    yield printed("fits", "imported.json", "--cluster", "dgx-h100")
    for least in ("700 KiB", "1 KiB"):
        fits = ("--json", "fits", "imported.json", "--memory-limit", least)
        yield json.loads(weir(folder, *fits, code=4))
    yield printed("export", "imported.json", "--to", "megatron", "--patch", "other.args",
                  "-o", "patched")


def of_runs(folder, printed):
    weir(folder, "profile", "tiny.json", "-b", "1,2", "-q", "-o", "profile.json")
    for plan, run in (("plan", "first"), ("gpipe", "second")):
        yield printed("run", f"{plan}.json", "--steps", 5, "--checkpoint-every", 5, "-o", run)
        yield json.loads((folder / run / "measured.json").read_text())
        checkpoint = folder / run / "checkpoints/step-000005/checkpoint.json"
        yield json.loads(checkpoint.read_text())
    # A run that is watched while it trains, and then stopped.
    with subprocess.Popen([WEIR, "-q", "run", "plan.json", "--steps", "100000", "-o", "watched"],
                          cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        while not (folder / "watched/progress.json").exists():
            assert run.poll() is None, "the run has ended"
            time.sleep(0.05)
        progress = (folder / "watched/progress.json").read_text()
        run.send_signal(signal.SIGINT)
    yield json.loads(progress)
    yield printed("run", "plan.json", "--backend", "synthetic")
    yield printed("calibrate", "first/measured.json", "second/measured.json", "--costs",
                  "profile.json", "-o", "costs.json")
    yield printed("calibrate", "--nccl", "nccl.log", "--costs", "costs.json", "-o", "linked.json")
    yield json.loads((folder / "linked.json").read_text())
    yield printed("calibrate", "--nccl", "nccl.log", "--cluster", CLUSTER, "-o", "machine.json")
    yield json.loads((folder / "machine.json").read_text())


def of_forecasts(folder, printed):
    yield printed("simulate", "plan.json", "--costs", "costs.json", "--samples", 20, "--no-barrier",
                  "--mtbf", "3h", "--checkpoint-cost", "30s", "--restart-cost", "5min",
                  "--memory-limit", "1 GiB", "-o", "forecast")
    yield json.loads((folder / "forecast/predicted.json").read_text())
    yield printed("simulate", "split.json", "--cluster", CLUSTER)
    priced = {**json.loads(CLUSTER.read_text()), "price_per_gpu_hour": "2.50 USD"}
    (folder / "priced.json").write_text(json.dumps(priced))
    yield printed("simulate", "split.json", "--cluster", "priced.json", "--train-tokens", "1e12")
    yield printed("explain", "split.json", "--cluster", "priced.json", "--train-tokens", "1e12",
                  "--measured", "5ktok/s")
    yield printed("explain", "gpipe.json", "--costs", "costs.json", "--measured", "1s")
    yield printed("calibrate", "--measured", "split.json=900ms,20.5GiB", "--measured",
                  "replicas.json=3ktok/s", "--cluster", CLUSTER, "-o", "anchored.json")
    yield printed("simulate", "split.json", "--cluster", CLUSTER, "--costs", "anchored.json")
    yield printed("compare", "forecast/predicted.json", "first/measured.json", "--svg", "both.svg")
    yield printed("compare", "plan.json", "split.json")
    weir(folder, "plan", "tiny.json", "-K", 2, "-M", 4, "--schedule", "gpipe", "-o", "drained.json")
    yield printed("compare", "plan.json", "drained.json", "--cluster", CLUSTER)  # of one job
    line = "iteration {} | elapsed time per iteration (ms): {} | lm loss: 1.0\n"
    (folder / "job.log").write_text("".join(line.format(i, 100 + i) for i in range(1, 6)))
    yield printed("compare", "plan.json", "job.log")
    timeline(folder / "timeline")
    yield printed("compare", "plan.json", "timeline")
    yield printed("compare", "timeline", "timeline", "--priced-by", 2)


def of_searches(folder, printed):
    yield printed("sweep", "tiny.json", "-K", "1,2", "--baseline", "plan.json", "--backend",
                  "synthetic", "--run", "--explain")
    # A search of a large space, stopped when it has found something and before it ends, however
    # fast the machine.
    for seconds in (0.5, 1, 2, 4, 8, 16, 32):
        with subprocess.Popen(
                [WEIR, "-q", "sweep", str(EXAMPLES / "models/llama-3-70b.json"), "--gpus", "2048",
                 "--global-batch-size", "4096", "--cluster", str(CLUSTER), "--budget", "60s", "-o",
                 "large.json"],
                cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as search:
            time.sleep(seconds)
            search.send_signal(signal.SIGINT)
        state = folder / "large.json.search"
        if state.exists() and json.loads(state.read_text())["search"]["best"]:
            break
    yield json.loads(state.read_text())
    yield printed("sweep", "tiny.json", "-K", "1,5", "-M", 2)
    yield printed(
        "sweep", "tiny.json", "--gpus", 8, "--global-batch-size", 8, "--cluster", CLUSTER
    )
    yield printed("tune", "tiny.json", "--plans", 2, "--rounds", 1, "--steps", 1,
                  "--global-batch-size", 2, "-o", "tuned")
    yield json.loads((folder / "tuned/profile.json").read_text())
    # What ends before there is a result leaves what it has: no plan fits, there are not so many.
    tune = "tune tiny.json -K 1 --global-batch-size 1 --memory-limit 1KiB -q -o none".split()
    weir(folder, *tune, code=4)
    yield json.loads((folder / "none/unfinished/asked.json").read_text())
    many = "evaluate tiny.json -K 1 --global-batch-size 1 --held-out 60000 -q -o many".split()
    weir(folder, *many, code=2)
    yield json.loads((folder / "many/unfinished/asked.json").read_text())
    yield json.loads((folder / "tuned/costs.json").read_text())
    yield printed("evaluate", "tiny.json", "-K", "1,2", "--global-batch-size", 4, "--fit", 1,
                  "--interval", 9, "--held-out", 2, "--rounds", 1, "-o", "judged")
    yield json.loads((folder / "judged/predictions.json").read_text())
    yield json.loads((folder / "judged/costs.json").read_text())


def outputs(folder):
    """One after the other: later ones read files of earlier ones."""
    (folder / "tiny.json").write_text(json.dumps(TINY))
    (folder / "job.args").write_text(MEGATRON)
    (folder / "nccl.log").write_text(nccl_tests())

    def printed(*arguments):
        return json.loads(weir(folder, *arguments, "--json", "-q"))

    for part in (of_models_and_schedules, of_plans, of_runs, of_forecasts, of_searches):
        yield from part(folder, printed)
