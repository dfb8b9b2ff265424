"""torchtitan's own reading of its jobs, as far as the pipeline's schedule.

    judge_torchtitan.py CHECKOUT main|0.2 < JOBS > VERDICTS      a JSON object a line, on both sides

A job is {"id", "folder", "argv", "world"}; its verdict {"id", "error" (null: it starts), "args"}.
Its arguments go through ConfigManager in its folder; then, over PyTorch's fake process group, the
first and the last rank's mesh, the model on the meta device, its stages and their schedule. What
parallelises a stage needs devices and is left out, but for 0.2's one refusal there.
"""
# SPDX-License-Identifier: Apache-2.0

import contextlib
import importlib
import io
import json
import os
import sys

CHECKOUT, VERSION = sys.argv[1:3]
MAIN = VERSION == "main"
sys.path.insert(0, CHECKOUT)
os.environ["LOCAL_RANK"] = "0"
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: E402

with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    import torchtitan.tools.utils as tools

    # A job in 8 bits asks for the device that it is written for, and for torchao.
    tools.has_cuda_capability = lambda *_: True
    from torchtitan.config import ConfigManager
    from torchtitan.distributed import ParallelDims

    if MAIN:
        import torchtitan.models.llama3  # noqa: F401
        from torchtitan import trainer as titan
    else:
        from torchtitan.protocols.train_spec import get_train_spec


def mesh(parallelism, rank, world):
    if dist.is_initialized():
        dist.destroy_process_group()
    dist.init_process_group("fake", rank=rank, world_size=world, store=FakeStore())
    if MAIN:
        dims = ParallelDims.from_config(parallelism, world)
    else:
        p = parallelism
        dims = ParallelDims(
            dp_replicate=p.data_parallel_replicate_degree,
            dp_shard=p.data_parallel_shard_degree,
            cp=p.context_parallel_degree,
            tp=p.tensor_parallel_degree,
            pp=p.pipeline_parallel_degree,
            ep=p.expert_parallel_degree,
            etp=p.expert_tensor_parallel_degree,
            world_size=world,
        )
    dims.build_mesh()
    return dims


def model_of(config):
    """The model without storage, what splits it, and that one's further arguments."""
    p, t, cpu = config.parallelism, config.training, torch.device("cpu")
    if MAIN:
        spec = config.model_spec
        titan.dist_utils.set_spmd_backend(p.spmd_backend)
        spec.model.update_from_config(config=config)
        config._validate_cuda_graphs()
        with torch.device("meta"):
            model = spec.model.build()
        more = {
            "training": t,
            "parallelism": p,
            "compile_config": config.compile,
            "dump_folder": "",
            "ac_config": config.activation_checkpoint,
            "model_config": spec.model,
        }
    else:
        spec = get_train_spec(config.model.name)
        sizes = spec.model_args[config.model.flavor]
        sizes.update_from_config(config)
        with torch.device("meta"):
            model = spec.model_cls(sizes)
        more = {"job_config": config, "model_args": sizes}
    return model, spec.pipelining_fn, {**more, "device": cpu}


def is_half(training, dims):
    """Whether weights are multiplied in 16 bits: 0.2 leaves mixed precision out where neither FSDP
    nor autocast takes part (torchtitan/distributed/utils.py, maybe_enable_amp)."""
    mixed = MAIN or dims.fsdp_enabled or not (dims.tp_enabled or dims.pp_enabled)
    return "bfloat16" in (training.dtype, mixed and training.mixed_precision_param)


def start(job, found):
    os.chdir(job["folder"])
    sys.path.insert(0, ".")
    config = ConfigManager().parse_args(job["argv"])
    if not MAIN and config.experimental.custom_import:  # as train.py does
        importlib.import_module(config.experimental.custom_import)
    p = config.parallelism
    found.update(
        pp=p.pipeline_parallel_degree,
        tp=p.tensor_parallel_degree,
        cp=p.context_parallel_degree,
        clip=config.training.max_norm,
        seed=config.debug.seed,
        schedule=p.pipeline_parallel_schedule,
    )
    for rank in sorted({0, job["world"] - 1}):
        dims = mesh(p, rank, job["world"])
        found["half"] = is_half(config.training, dims)
        if (
            not MAIN
            and dims.dp_replicate_enabled
            and not dims.fsdp_enabled
            and dims.world_size != dims.dp_replicate
        ):
            raise RuntimeError("DDP has not supported > 1D parallelism")
        model, split, more = model_of(config)
        if not dims.pp_enabled:
            continue
        schedule, parts, _, _ = split(
            model,
            parallel_dims=dims,
            parallelize_fn=lambda part, *_, **__: part,
            loss_fn=lambda *_, **__: None,
            **more,
        )
        found.setdefault("stages", []).append(
            [len(getattr(part, "layers", None) or ()) for part in parts]
        )
        found["microbatches"] = schedule._n_microbatches


def verdict(job):
    found, error, said = {}, None, io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            start(job, found)
        except BaseException as raised:
            error = f"{type(raised).__name__}: {raised}"
            if isinstance(raised, SystemExit):  # the command line's own parser
                error += said.getvalue()[-300:]
    return {"id": job["id"], "error": error, "args": found}


for line in sys.stdin:
    one = json.loads(line)
    end, begin = os.pipe()
    if os.fork() == 0:
        with os.fdopen(begin, "w") as out:
            json.dump(verdict(one), out, default=str)
        os._exit(0)
    os.close(begin)
    with os.fdopen(end) as answer:
        text = answer.read()
    os.wait()
    print(text or json.dumps({"id": one["id"], "error": "crashed", "args": {}}), flush=True)
