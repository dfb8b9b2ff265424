"""Measures a model's layers as PyTorch runs them on this machine, and the messages between ranks,
and writes the costs that `weir profile` writes for Weir's own executor (weir.costs/1).

    python -m weir.profile_torch config.json -o costs.json
    weir simulate plan.json --costs costs.json
"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import json
import pathlib
import tempfile

import weir
from weir import torch_ranks

DTYPES = {"fp32": "float32", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16"}


def measure(device, job):
    """One rank's part; rank 0 writes what all of them found."""
    import torch
    import torch.distributed as dist
    from weir import torch_chain, torch_costs, torch_gaps, torch_messages
    from weir.torch_clock import mean_over_ranks
    from weir.torch_layers import is_tied

    dtype = getattr(torch, DTYPES[job["dtype"]])
    if job["dtype"] == "tf32":
        torch.set_float32_matmul_precision("high")
    config, layers, splits, version = layers_of(device, job)
    chain = torch_chain.Chain(layers, config.vocab_size, job["seq_length"], device, dtype, splits)
    sizes = job["sizes"]
    keys, rank, ranks = job["keys"], dist.get_rank(), dist.get_world_size()
    passes, alone = torch_chain.measure_passes(chain, keys, sizes, job["repetitions"])
    updates = [mean_over_ranks(time, None) for time in chain.update(sizes[0])]
    found = {"passes": passes, "updates": updates, "link": (0.0, 0.0),
             "alone": dict.fromkeys(torch_costs.CORRECTIONS, 1.0)}
    if ranks > 1:
        ends = dist.new_group([0, ranks - 1])
        if is_tied(config) and rank in (0, ranks - 1):
            # The first and the last stage sum the gradients of their copies before the update.
            _, reduction = torch_messages.measure_all_reduce(
                device, config.vocab_size * config.hidden_size, dtype, ends)
            updates[0] += reduction
            updates[-1] += reduction
        if rank == 0:
            found["alone"] = torch_costs.alone_over_busy(alone, passes, sizes)
            found["alone"]["optimizer"] = torch_costs.alone_over_busy_update(
                chain.update(sizes[0]), updates, job, is_tied(config))
        dist.barrier()
        shapes = [(batch, job["seq_length"], config.hidden_size) for batch in sizes]
        messages = torch_messages.measure_messages(device, shapes, dtype)
        link = [torch_messages.line_through(messages) if rank == 0 else None]
        dist.broadcast_object_list(link, src=0)
        found["link"] = link[0]
        if job["collectives"]:
            table = torch_messages.measure_collectives(device, dtype)
            found["collectives"] = torch_messages.nccl_test(table, ranks, dtype, job["machine"])
    found["gaps"] = torch_gaps.measure_gaps(device, found["link"][0], job["folder"])
    found["versions"] = torch_costs.versions(device, version)
    if rank == 0:
        pathlib.Path(job["folder"], "found.json").write_text(json.dumps(found))


def layers_of(device, job):
    """(configuration of a device's share, its layers, whether I and W of them can be told apart,
    version of what they are from)."""
    import transformers
    from weir.torch_division import divided, make_share
    from weir.torch_layers import Beside, model_config

    whole = model_config(job["config"], job["attention"])
    share = divided(whole, job["tp"])
    if job["layers"] == "transformers":
        beside = Beside(share)
        layers = [make_share(share, index, beside, job["tp"]) for index in job["chain"]]
        return share, layers, True, f"transformers {transformers.__version__}"
    from weir import torch_megatron

    torch_megatron.prepare(device)
    check_parameters(job["model"], job["said"], whole,
                     lambda index: torch_megatron.make_layer(whole, index))
    layers = [torch_megatron.make_layer(whole, index, job["tp"]) for index in job["chain"]]
    return share, layers, torch_megatron.SPLITS, torch_megatron.version()


def check_parameters(model, said, config, make):
    """Throws InputError where the framework's modules, make(index) on no device, are not those
    that Weir says the model has."""
    import torch
    from weir.torch_layers import count_layers, is_tied

    if len(said) != count_layers(config):
        raise weir.InputError(f"{model}: layers: the framework has {count_layers(config)}, the "
                              f"model {len(said)}")
    for index, layer in enumerate(said):
        if index == len(said) - 1 and is_tied(config):
            continue  # the embedding's weight
        with torch.device("meta"):
            module = make(index)
        has = sum(parameter.numel() for parameter in module.parameters())
        if has != layer["parameters"]:
            raise weir.InputError(f"{model}: {layer['name']}: the framework's module has "
                                  f"{has} parameters, the model {layer['parameters']}")


def sizes_of(text):
    sizes = sorted({int(word) for word in text.split(",")})
    if sizes[0] < 1:
        raise ValueError
    return sizes


def profile(model, output=None, tp=1, dtype="fp32", layers="transformers", attention="unfused",
            seq_length=None, micro_batch_sizes=(1, 2, 4, 8), ranks=None, repetitions=7,
            collectives=None, limit_s=3600):
    """Measures and returns weir.costs/1; writes it to `output`, and the all-reduces to
    `collectives`, where they are given. RunFailed where it is not done after so many seconds."""
    torch_ranks.require("torch")
    import torch

    torch_ranks.require("transformers")
    if layers == "megatron":
        torch_ranks.require("megatron.core", package="megatron-core")
        if attention == "fused":
            raise weir.UsageError("layers megatron, attention fused: Megatron-Core's own attention "
                                  "is unfused")
    cuda = torch.cuda.is_available()
    ranks = ranks or torch_ranks.default_ranks()
    if cuda and ranks > torch.cuda.device_count():
        raise weir.MissingComponent(f"pp {ranks}: there are {torch.cuda.device_count()} GPUs")
    if collectives and ranks < 2:
        raise weir.UsageError("collectives: one rank has none")
    plan = weir.plan(str(model), tp=tp, dtype=dtype, attention=attention, pp=1, microbatches=1,
                     **({"seq_length": seq_length} if seq_length else {}))
    said = weir.model(str(model))["layers"]
    from weir.torch_chain import chain_of
    from weir.torch_costs import costs_of, write_whole
    from weir.torch_division import divided
    from weir.torch_layers import FAMILIES, bare_layer, model_config

    settings = json.loads(pathlib.Path(model).read_text())
    if not isinstance(settings, dict) or settings.get("model_type") not in FAMILIES:
        raise weir.InputError(f"{model}: model_type: layers are measured of "
                              + " and ".join(FAMILIES))
    config = model_config(settings, attention)
    if layers == "transformers":  # Megatron's are made in groups of ranks only
        check_parameters(model, said, config, lambda index: bare_layer(config, index, None))
    divided(config, tp)  # says what it does not divide before any process is started
    chain = chain_of(config)
    machine = torch.cuda.get_device_name() if cuda else weir.commands.doctor()["machine"]
    with tempfile.TemporaryDirectory() as folder:
        job = {"model": str(model), "said": said, "config": settings, "attention": attention,
               "tp": tp, "dtype": dtype, "layers": layers, "seq_length": plan.seq_length,
               "sizes": list(micro_batch_sizes), "chain": chain,
               "keys": [plan.layer_keys[index] for index in chain],
               "all_keys": list(plan.layer_keys), "ranks": ranks, "repetitions": repetitions,
               "folder": folder, "machine": machine, "collectives": bool(collectives)}
        watch = weir.Watch()
        torch_ranks.run_ranks(ranks, measure, job, limit_s=limit_s)
        job["disturbance"] = watch.until_now()
        found = json.loads(pathlib.Path(folder, "found.json").read_text())
    costs = costs_of(job, found, cuda)
    if collectives:
        write_whole(pathlib.Path(collectives), found["collectives"])
    if output:
        write_whole(pathlib.Path(output), json.dumps(costs, indent=1) + "\n")
        weir.load_costs(output)
    return costs


def main():
    options = argparse.ArgumentParser(
        prog="python -m weir.profile_torch", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("model", help="Hugging Face config.json")
    options.add_argument("--tp", type=int, default=1, help="devices a layer is divided among")
    options.add_argument("--dtype", choices=list(DTYPES), default="fp32")
    options.add_argument("--layers", choices=["transformers", "megatron"], default="transformers")
    options.add_argument("--attention", choices=["unfused", "fused"], default="unfused")
    options.add_argument("--seq-length", type=int, help="tokens a sample")
    options.add_argument("-b", "--micro-batch-size", type=sizes_of, default=[1, 2, 4, 8],
                         dest="micro_batch_sizes", help="sizes to measure (1,2,4,8)")
    options.add_argument("-K", "--pp", type=int, dest="ranks",
                         help="ranks at work at once (all GPUs; two cores)")
    options.add_argument("--repetitions", type=int, default=7)
    options.add_argument("--collectives", metavar="FILE",
                         help="all-reduces as nccl-tests prints them, for weir calibrate --nccl")
    options.add_argument("--time-limit", type=int, default=3600, dest="limit_s", metavar="SECONDS",
                         help="after which it is given up (3600)")
    options.add_argument("-o", "--output", metavar="FILE", help="costs file; else on stdout")
    request = vars(options.parse_args())
    for option, name in (("--tp", "tp"), ("--pp", "ranks"), ("--repetitions", "repetitions"),
                         ("--seq-length", "seq_length"), ("--time-limit", "limit_s")):
        if request[name] is not None and request[name] < 1:
            options.error(f"{option} {request[name]}: expected at least 1")
    costs = profile(**request)
    if request["output"] is None:
        print(json.dumps(costs, indent=1))
    else:
        print(f"{request['output']}: {len(costs['layers'])} layers, {costs['origin']}")
    return 0


if __name__ == "__main__":
    torch_ranks.run_as_command(main)
