"""Megatron-LM's own start-up on command lines, without a GPU, as far as the model's construction.

    judge_megatron.py CHECKOUT < JOBS > VERDICTS      a JSON object a line, on both sides

A job is {"id", "argv", "env", "world"}; its verdict {"id", "error" (null: it starts), "args"}. Each
is judged in a process of its own, forked from one that has imported the checkout. A Hopper and a
recent Transformer Engine are pretended, since arguments are checked against both. The last two
checks repeat what Megatron asks at the first step: of interleaved micro-batches
(pipeline_parallel/schedules.py) and of experts under tensor parallelism
(transformer/moe/moe_layer.py, forward).
"""
# SPDX-License-Identifier: Apache-2.0

import argparse
import contextlib
import io
import json
import os
import sys
import traceback
import typing

CHECKOUT = sys.argv[1]
sys.path.insert(0, CHECKOUT)
os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"  # read at import, too
if not hasattr(typing, "override"):
    typing.override = lambda function: function

import torch  # noqa: E402
from packaging.version import Version  # noqa: E402

HOPPER = (9, 0)


class Device:
    major, minor = HOPPER
    name, total_memory, multi_processor_count = "NVIDIA H100 80GB HBM3", 80 << 30, 132


torch.cuda.get_device_capability = lambda *_, **__: HOPPER
torch.cuda.get_device_properties = lambda *_, **__: Device()
torch.cuda.get_device_name = lambda *_, **__: Device.name

import megatron.core.utils as utils  # noqa: E402

ENGINE = Version("2.9.0")
utils._te_version = ENGINE
utils.get_te_version = lambda: ENGINE
with contextlib.redirect_stdout(io.StringIO()):
    from megatron.core import num_microbatches_calculator, parallel_state
    from megatron.core.models.common.embeddings import rope_utils
    from megatron.core.transformer import transformer_block
    from megatron.training import argument_utils, arguments, global_vars, training
for module in [m for n, m in sys.modules.items() if n.startswith("megatron")]:
    for name, answer in (("get_te_version", ENGINE), ("get_device_arch_version", HOPPER[0])):
        if hasattr(module, name):
            setattr(module, name, lambda answer=answer: answer)
for kernel in ("fused_apply_rotary_pos_emb", "fused_apply_rotary_pos_emb_thd"):
    setattr(rope_utils, kernel, lambda *_, **__: None)


def unusable(self, message):
    raise ValueError(message)


argparse.ArgumentParser.error = unusable


class NoOptimizer:
    param_groups = [{"lr": 0.0, "weight_decay": 0.0}]


def blocks(config, args):
    """Blocks of each stage, by Megatron's own count."""
    ranks, chunks = args.pipeline_model_parallel_size, args.virtual_pipeline_model_parallel_size
    parallel_state.set_pipeline_model_parallel_world_size(ranks)
    parallel_state.set_virtual_pipeline_model_parallel_world_size(chunks)
    counts = []
    for chunk in range(chunks or 1):
        for rank in range(ranks):
            parallel_state.set_pipeline_model_parallel_rank(rank)
            stage = chunk if chunks else None
            counts.append(
                transformer_block.get_num_layers_to_build(config, vp_stage=stage, pp_rank=rank)
            )
    return counts


def first_step(args, config, microbatches):
    """What is asked only once training has begun."""
    ranks, group = args.pipeline_model_parallel_size, config.microbatch_group_size_per_vp_stage
    if args.virtual_pipeline_model_parallel_size:
        if not ranks <= group <= microbatches:
            raise ValueError(
                f"interleaving: groups of {group} of {microbatches} micro-batches on {ranks} ranks"
            )
        if 0 < microbatches % group < ranks:
            raise ValueError(
                f"interleaving: the last group, of {microbatches % group}, is below {ranks} ranks"
            )
    if args.num_experts and args.tensor_model_parallel_size > 1 and not args.sequence_parallel:
        raise ValueError("experts under tensor parallelism without sequence parallelism")


def start(found):
    args = arguments.parse_args(None, False)
    arguments.validate_args(args, {"tokenizer_type": "GPT2BPETokenizer"})
    found.update(
        {k: v for k, v in vars(args).items() if isinstance(v, (bool, int, float, str, type(None)))}
    )
    found["attention_backend"] = args.attention_backend.name
    global_vars.set_global_variables(args, build_tokenizer=False)
    found["num_microbatches"] = num_microbatches_calculator.get_num_microbatches()
    args.padded_vocab_size = args.vocab_size or 32000
    config = argument_utils.core_transformer_config_from_args(args)
    if hasattr(argument_utils, "gpt_config_from_args"):
        argument_utils.pretrain_cfg_container_from_args(
            args, argument_utils.gpt_config_from_args(args, config)
        )
    found["blocks"] = blocks(config, args)
    training.get_optimizer_param_scheduler(NoOptimizer())
    first_step(args, config, found["num_microbatches"])


def verdict(job):
    os.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
    os.environ.update(job["env"], RANK="0", LOCAL_RANK="0", WORLD_SIZE=str(job["world"]))
    sys.argv = ["pretrain_gpt.py", *job["argv"]]
    found, error = {}, None
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            start(found)
        except BaseException as raised:  # SystemExit is a refusal, too
            error = f"{type(raised).__name__}: {raised}"
            if isinstance(raised, AssertionError) and not str(raised):  # then its line says it
                error += traceback.extract_tb(raised.__traceback__)[-1].line
    return {"id": job["id"], "error": error, "args": found}


def main():
    for line in sys.stdin:
        job = json.loads(line)
        end, begin = os.pipe()
        if os.fork() == 0:
            with os.fdopen(begin, "w") as out:
                json.dump(verdict(job), out)
            os._exit(0)
        os.close(begin)
        with os.fdopen(end) as answer:
            text = answer.read()
        os.wait()
        print(text or json.dumps({"id": job["id"], "error": "crashed", "args": {}}), flush=True)


main()
