"""DeepSpeed's own reading of its JSON.

    judge_deepspeed.py CHECKOUT < JOBS > VERDICTS      a JSON object a line, on both sides

A job is {"id", "config", "script", "dp", "pp"}; its verdict {"id", "error" (null: it starts),
"args"}. The configuration goes through DeepSpeedConfig with the plan's replicas; the pipeline
engine's own check of ZeRO is repeated (deepspeed/runtime/pipe/engine.py, __init__), and the script
is compiled.
"""
# SPDX-License-Identifier: Apache-2.0

import contextlib
import io
import json
import os
import sys

os.environ["DS_ACCELERATOR"] = "cpu"
sys.path[0] = sys.argv[1]
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    import deepspeed
    from deepspeed.runtime import config as runtime
deepspeed.comm.get_rank = runtime.dist.get_rank = lambda *_, **__: 0


class Replicas:
    """Stands for the launcher's grid of devices."""

    def __init__(self, count):
        self.count = count

    def get_data_parallel_world_size(self):
        return self.count

    def get_model_parallel_world_size(self):
        return 1


def start(job):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        config = runtime.DeepSpeedConfig(job["config"], Replicas(job["dp"]))
    if job["pp"] > 1 and config.zero_optimization_stage > 1:
        raise ValueError("the pipeline engine takes ZeRO 1 at most")
    with open(job["script"]) as file:
        compile(file.read(), job["script"], "exec")
    return {
        "batch": config.train_batch_size,
        "micro": config.train_micro_batch_size_per_gpu,
        "accumulation": config.gradient_accumulation_steps,
        "clip": config.gradient_clipping,
        "lr": config.optimizer_params["lr"],
        "zero": config.zero_optimization_stage,
        "bf16": config.bfloat16_config.enabled,
        "fp16": config.float16_config.enabled,
    }


for line in sys.stdin:
    one, error, found = json.loads(line), None, {}
    try:
        found = start(one)
    except BaseException as raised:  # SystemExit is a refusal, too
        error = f"{type(raised).__name__}: {raised}"
    print(json.dumps({"id": one["id"], "error": error, "args": found}), flush=True)
