"""Measures a model's layers as PyTorch runs them on this machine, and the messages between ranks,
and writes the costs that `weir profile` writes for Weir's own executor (weir.costs/1).

    python -m weir.profile_torch config.json -o costs.json
    weir simulate plan.json --costs costs.json
"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import datetime
import importlib.util
import json
import os
import pathlib
import platform
import statistics
import tempfile

import weir
from weir import torch_ranks

MOST_BLOCKS = 4  # of the model, measured one after the other: its caches hold no layer for long
WARM_UP = 2
CORRECTIONS = ("f", "b", "i", "w", "r", "optimizer")
DTYPES = {"fp32": "float32", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16"}


def chain_of(config):
    """Indices of the layers that are measured: each kind, and several blocks."""
    from weir.torch_layers import count_layers

    last = count_layers(config) - 1
    return [0, *range(1, 1 + min(MOST_BLOCKS, last - 2)), last - 1, last]


def divided(config, tp):
    """The configuration of one device's share under tensor parallelism: heads, the feed-forward
    width and the vocabulary by tp."""
    import copy

    if tp == 1:
        return config
    kv_heads = getattr(config, "num_key_value_heads", config.num_attention_heads)
    inner = "n_inner" if config.model_type == "gpt2" else "intermediate_size"
    width = getattr(config, inner) or 4 * config.hidden_size
    for what, number in (("heads", config.num_attention_heads), ("key-value heads", kv_heads),
                         ("feed-forward numbers", width), ("words", config.vocab_size)):
        if number % tp:
            raise weir.InputError(f"--tp {tp}: does not divide {number} {what}")
    share = copy.deepcopy(config)
    setattr(share, inner, width // tp)
    share.vocab_size //= tp
    if config.model_type == "llama":
        share.head_dim = getattr(config, "head_dim", None) or (
            config.hidden_size // config.num_attention_heads)
        share.num_attention_heads //= tp
        share.num_key_value_heads = kv_heads // tp
    return share


def divide_heads(layer, tp):
    """GPT-2's attention takes its head count from its width: its products are made anew."""
    from weir.torch_layers import Block

    if tp == 1 or not isinstance(layer, Block) or not hasattr(layer.block, "attn"):
        return layer
    attention = layer.block.attn
    kind, width = type(attention.c_attn), attention.embed_dim
    attention.c_attn = kind(3 * width // tp, width)
    attention.c_proj = kind(width, width // tp)
    attention.split_size = width // tp
    attention.num_heads //= tp
    return layer


class Clock:
    """Marks in the work of a device: the host's clock, or events on a GPU's stream."""

    def __init__(self, device):
        self.cuda = device.type == "cuda"

    def mark(self):
        import time

        import torch

        if not self.cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, begin, end):
        if not self.cuda:
            return end - begin
        end.synchronize()
        return begin.elapsed_time(end) / 1e3


class Chain:
    """Layers one after the other, each pass of each of them timed by itself."""

    def __init__(self, layers, words, length, device, dtype):
        self.layers = [layer.to(device, dtype) for layer in layers]
        self.words, self.length, self.device = words, length, device
        self.clock = Clock(device)
        self.splits = True  # I and W can be told apart

    def draw(self, batch):
        import torch

        tokens = torch.randint(self.words, (batch, self.length + 1), device=self.device)
        return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    def loss(self, output, target):
        import torch

        return torch.nn.functional.cross_entropy(output.flatten(0, -2).float(), target.flatten())

    def forward(self, x, target):
        """(input, output) of each layer, and the marks around each; the last one's is the loss."""
        states, marks = [], []
        for layer in self.layers:
            if states:
                x = x.detach().requires_grad_()
            begin = self.clock.mark()
            y = layer(x)
            if layer is self.layers[-1]:
                y = self.loss(y, target)
            marks.append((begin, self.clock.mark()))
            states.append((x, y))
            x = y
        return states, marks

    def whole_backward(self, states):
        import torch

        marks, gradient = [], None
        while states:
            x, y = states.pop()
            begin = self.clock.mark()
            torch.autograd.backward(y, gradient)
            marks.append((begin, self.clock.mark()))
            gradient = x.grad
        return marks[::-1]

    def split_backward(self, states):
        """As torch.distributed.pipelining divides it. Tokens have no gradient: all of the
        embedding's backward is for its weights."""
        import torch
        from torch.distributed.pipelining._backward import (stage_backward_input,
                                                            stage_backward_weight)

        marks, gradient = [], None
        while states:
            x, y = states.pop()
            layer = self.layers[len(states)]
            begin = middle = self.clock.mark()
            if x.requires_grad:
                _, groups = stage_backward_input((y,), None if gradient is None else [gradient],
                                                 [x], layer.parameters())
                middle = self.clock.mark()
                stage_backward_weight(layer.parameters(), groups)
            else:
                torch.autograd.backward(y, gradient)
            marks.append((begin, middle, self.clock.mark()))
            gradient = x.grad
        return marks[::-1]

    def once(self, batch):
        """Seconds of each layer's passes by kind."""
        x, target = self.draw(batch)
        states, forward = self.forward(x, target)
        backward, parts = self.whole_backward(states), None
        if self.splits:
            states, _ = self.forward(x, target)
            try:
                parts = self.split_backward(states)
            except (RuntimeError, AssertionError):
                self.splits = False
        between = self.clock.between
        rows = [{"f": between(*f), "b": between(*b)} for f, b in zip(forward, backward)]
        for row, part in zip(rows, parts or []):
            row["i"], row["w"] = between(*part[:2]), between(*part[1:])
        return rows

    def update(self, batch):
        """Seconds of each layer's update with AdamW, gradients scaled and set to nothing, together
        as long as that of all of them."""
        import torch

        def optimizer(layers):
            weights = dict.fromkeys(p for layer in layers for p in layer.parameters())
            return torch.optim.AdamW(list(weights))

        def timed(update, layers):
            begin = self.clock.mark()
            for parameter in update.param_groups[0]["params"]:
                parameter.grad.div_(2)
            update.step()
            update.zero_grad()
            return self.clock.between(begin, self.clock.mark())

        each, all_at_once = [[] for _ in self.layers], []
        updates = [optimizer([layer]) for layer in self.layers]
        together = optimizer(self.layers)
        for _ in range(WARM_UP + 3):
            for which in (updates, [together]):
                x, target = self.draw(batch)
                self.whole_backward(self.forward(x, target)[0])
                seconds = [timed(update, self.layers) for update in which]
                if which is updates:
                    for of_layer, time in zip(each, seconds):
                        of_layer.append(time)
                else:
                    all_at_once += seconds
        times = [statistics.median(of_layer[WARM_UP:]) for of_layer in each]
        whole = statistics.median(all_at_once[WARM_UP:])
        return [time * whole / sum(times) for time in times]

    def kept(self, batch):
        """Bytes that each layer keeps from F to B, its input among them, weights left out."""
        import torch

        weights = {p.untyped_storage().data_ptr() for layer in self.layers
                   for p in layer.parameters()}
        x, target = self.draw(batch)
        kept = []
        for number, layer in enumerate(self.layers):
            storages = {}

            def pack(tensor, storages=storages):
                storage = tensor.untyped_storage()
                if storage.data_ptr() not in weights:
                    storages[storage.data_ptr()] = storage.nbytes()
                return tensor

            if number:
                x = x.detach().requires_grad_()
                storages[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
            with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
                y = layer(x)
                if layer is self.layers[-1]:
                    y = self.loss(y, target)
            kept.append(sum(storages.values()))
            x = y
        return kept


def spread(values):
    """Interquartile range over the median."""
    low, middle, high = statistics.quantiles(values, n=4)
    return (high - low) / middle if middle > 0 else 0.0


def measure_passes(chain, keys, sizes, repetitions, ranks):
    """By layer key and micro-batch size: medians over repetitions of the mean over equal layers,
    then the mean over ranks; all ranks at work at once."""
    import torch.distributed as dist

    found = {key: {} for key in keys}
    for batch in sizes:
        seen = {key: {} for key in keys}
        for repetition in range(WARM_UP + repetitions):
            dist.barrier(ranks)
            rows = chain.once(batch)
            if repetition < WARM_UP:
                continue
            for key in found:
                alike = [row for row, its in zip(rows, keys) if its == key]
                for kind in alike[0]:
                    seen[key].setdefault(kind, []).append(
                        statistics.mean(row[kind] for row in alike))
        kept = dict(zip(keys, chain.kept(batch)))
        for key, kinds in seen.items():
            of_kinds = {kind: statistics.median(values) for kind, values in kinds.items()}
            of_kinds["spread"] = spread(kinds["f"])
            for kind, value in of_kinds.items():
                of_kinds[kind] = mean_over_ranks(value, ranks)
            found[key][batch] = {**of_kinds, "kept": kept[key]}
    return found


def mean_over_ranks(value, ranks):
    import torch.distributed as dist

    values = [None] * dist.get_world_size(ranks)
    dist.all_gather_object(values, value, group=ranks)
    return statistics.mean(values)


def measure_messages(device, shapes, dtype, repetitions=15):
    """(bytes, seconds) of one message between ranks 0 and 1, half of a round trip."""
    import torch
    import torch.distributed as dist

    rank, clock, found = dist.get_rank(), Clock(device), []
    for shape in [(64,), *shapes]:
        tensor, times = torch.ones(shape, dtype=dtype, device=device), []
        for _ in range(WARM_UP + repetitions if rank < 2 else 0):
            begin = clock.mark()
            for sender in (0, 1):
                send = rank == sender
                operation = dist.P2POp(dist.isend if send else dist.irecv, tensor, 1 - rank)
                for work in dist.batch_isend_irecv([operation]):
                    work.wait()
            times.append(clock.between(begin, clock.mark()) / 2)
        dist.barrier()
        if times:
            found.append((tensor.nbytes, statistics.median(times[WARM_UP:])))
    return found


def line_through(points):
    """(latency, bandwidth) by least squares of relative errors; bandwidth 0: size adds nothing."""
    weight = [1 / seconds ** 2 for _, seconds in points]
    total = sum(weight)
    x = sum(w * size for w, (size, _) in zip(weight, points)) / total
    y = sum(w * seconds for w, (_, seconds) in zip(weight, points)) / total
    square = sum(w * (size - x) ** 2 for w, (size, _) in zip(weight, points))
    slope = sum(w * (size - x) * (seconds - y)
                for w, (size, seconds) in zip(weight, points)) / square
    if slope <= 0:
        return y, 0.0
    return max(0.0, y - slope * x), 1 / slope


def step_of_nothing(device, microbatches, folder, repetitions=11):
    """Seconds of a GPipe step of 8 by 8 products, the slowest rank's."""
    import torch
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

    rank, ranks, clock = dist.get_rank(), dist.get_world_size(), Clock(device)
    stage = PipelineStage(torch.nn.Linear(8, 8).to(device), rank, ranks, device)
    schedule = _PipelineScheduleRuntime([stage], n_microbatches=microbatches,
                                        loss_fn=lambda output, target: output.mean())
    order = pathlib.Path(folder, f"{rank}-{microbatches}.csv")
    order.write_text("".join(
        ",".join(f"{s}{kind}{m}" for kind in "FB" for m in range(microbatches)) + "\n"
        for s in range(ranks)))
    schedule._load_csv(str(order), format="compute_only")
    x, times = torch.ones(microbatches, 8, device=device), []
    for _ in range(WARM_UP + repetitions):
        dist.barrier()
        begin, losses = clock.mark(), []
        schedule.step(*([x] if rank == 0 else []),
                      **({"target": x, "losses": losses} if rank == ranks - 1 else {}))
        seconds = torch.tensor(clock.between(begin, clock.mark()), device=device)
        dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
        times.append(seconds.item())
    return statistics.median(times[WARM_UP:])


def measure_gaps(device, latency, folder):
    """(seconds before every action, seconds at a step's end), of the runtime itself: a step of M
    micro-batches that compute nothing takes 2 (M + K - 1) gaps, 2 (K - 1) messages, and the end."""
    import torch.distributed as dist

    few, many, ranks = 2, 10, dist.get_world_size()
    short = step_of_nothing(device, few, folder)
    long = step_of_nothing(device, many, folder)
    gap = max(0.0, (long - short) / (many - few) / 2)
    return gap, max(0.0, short - 2 * (few + ranks - 1) * gap - 2 * (ranks - 1) * latency)


def measure_collectives(device, shapes, dtype):
    """(bytes, seconds) of an all-reduce over all ranks."""
    import torch
    import torch.distributed as dist

    clock, found = Clock(device), []
    for shape in shapes:
        tensor, times = torch.ones(shape, dtype=dtype, device=device), []
        for _ in range(WARM_UP + 9):
            dist.barrier()
            begin = clock.mark()
            dist.all_reduce(tensor)
            times.append(clock.between(begin, clock.mark()))
        found.append((tensor.nbytes, mean_over_ranks(statistics.median(times[WARM_UP:]), None)))
    return found


def measure(device, job):
    """One rank's part; rank 0 writes what all of them found."""
    import torch
    import torch.distributed as dist
    from weir.torch_layers import Beside, make_layer, model_config

    dtype = getattr(torch, DTYPES[job["dtype"]])
    if job["dtype"] == "tf32":
        torch.set_float32_matmul_precision("high")
    config = divided(model_config(job["config"], job["attention"]), job["tp"])
    beside, sizes = Beside(config), job["sizes"]
    layers = [divide_heads(make_layer(config, index, beside, 1), job["tp"])
              for index in job["chain"]]
    chain = Chain(layers, config.vocab_size, job["seq_length"], device, dtype)
    keys, rank, ranks = job["keys"], dist.get_rank(), dist.get_world_size()
    found = {"passes": measure_passes(chain, keys, sizes, job["repetitions"], None)}
    found["updates"] = [mean_over_ranks(time, None) for time in chain.update(sizes[0])]
    found["alone"] = dict.fromkeys(CORRECTIONS, 1.0)
    if ranks > 1:
        solo = dist.new_group([0])
        if rank == 0:
            at = sizes[-1]
            alone = measure_passes(chain, keys, [at], job["repetitions"], solo)
            both = [(alone[key][at], found["passes"][key][at]) for key in keys]
            for kind in ("f", "b", "i", "w"):
                if all(kind in one and kind in busy for one, busy in both):
                    found["alone"][kind] = (sum(one[kind] for one, _ in both)
                                            / sum(busy[kind] for _, busy in both))
            found["alone"]["r"] = found["alone"]["f"]
            found["alone"]["optimizer"] = sum(chain.update(sizes[0])) / sum(found["updates"])
        dist.barrier()
    shapes = [(batch, job["seq_length"], config.hidden_size) for batch in sizes]
    found["link"] = (0.0, 0.0)
    if ranks > 1:
        messages = measure_messages(device, shapes, dtype)
        link = [line_through(messages) if rank == 0 else None]
        dist.broadcast_object_list(link, src=0)
        found["link"] = link[0]
        found["collectives"] = measure_collectives(device, shapes, dtype)
    found["gaps"] = measure_gaps(device, found["link"][0], job["folder"])
    found["versions"] = versions(device)
    if rank == 0:
        pathlib.Path(job["folder"], "found.json").write_text(json.dumps(found))


def versions(device):
    import torch
    import transformers

    text = f"PyTorch {torch.__version__}, transformers {transformers.__version__}, "
    if device.type == "cpu":
        return text + "gloo"
    nccl = ".".join(map(str, torch.cuda.nccl.version()))
    driver = torch._C._cuda_getDriverVersion()
    return (text + f"CUDA {torch.version.cuda}, driver of CUDA {driver // 1000}."
            f"{driver % 1000 // 10}, NCCL {nccl}")


def check_parameters(model, said, config):
    """Throws InputError where the framework's modules are not the model's."""
    import torch
    from weir.torch_layers import bare_layer, count_layers, is_tied

    if len(said) != count_layers(config):
        raise weir.InputError(f"{model}: layers: transformers has {count_layers(config)}, the "
                              f"model {len(said)}")
    for index, layer in enumerate(said):
        if index == len(said) - 1 and is_tied(config):
            continue  # the embedding's weight
        with torch.device("meta"):
            module = bare_layer(config, index, None)
        has = sum(parameter.numel() for parameter in module.parameters())
        if has != layer["parameters"]:
            raise weir.InputError(f"{model}: {layer['name']}: transformers' module has {has} "
                                  f"parameters, the model {layer['parameters']}")


def costs_of(job, found, machine, cuda):
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
    return {"schema": "weir.costs/1", "basis": "measured", "machine": machine,
            "backend": "cuda" if cuda else "cpu",
            "origin": f"weir.profile_torch, {today}, {job['ranks']} devices busy, layers of "
                      f"{job['layers']}, {found['versions']}",
            "seq_length": job["seq_length"], "dtype": job["dtype"],
            "link": {"latency_s": latency, "bandwidth_bytes_per_s": bandwidth},
            "host_overhead_s": gap, "step_overhead_s": end, "alone": found["alone"],
            "correction": dict.fromkeys(CORRECTIONS, 1.0), "by_size": [], "interval": None,
            "range": None, "jitter": {},
            "overlap": {"compute_slowdown": 0, "transfer_slowdown": 0}, "layers": layers}


def nccl_test(rows, ranks, dtype, machine):
    """The table of nccl-tests' all_reduce_perf, which `weir calibrate --nccl` reads."""
    width = 4 if DTYPES[dtype] == "float32" else 2
    name = {"float32": "float", "bfloat16": "bfloat16", "float16": "half"}[DTYPES[dtype]]
    host = platform.node() or "here"
    text = "# Collective test starting: all_reduce_perf\n"
    for rank in range(ranks):
        text += f"#  Rank {rank:2d} Group  0 Pid {os.getpid()} on {host} device {rank:2d} [0] "
        text += f"{machine}\n"
    text += "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
    text += "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)\n"
    for size, seconds in rows:
        rate = size / seconds / 1e9
        text += (f"{size:12d} {size // width:12d} {name:>9} {'sum':>7} {-1:>6} "
                 f"{seconds * 1e6:9.2f} {rate:7.3f} {rate * 2 * (ranks - 1) / ranks:7.3f}      0\n")
    return text


def write_whole(file, text):
    """To a file beside it, then renamed: never half a file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(file.name + ".tmp")
    beside.write_text(text)
    os.replace(beside, file)


def sizes_of(text):
    sizes = sorted({int(word) for word in text.split(",")})
    if sizes[0] < 1:
        raise ValueError
    return sizes


def profile(model, output=None, tp=1, dtype="fp32", layers="transformers", attention="unfused",
            seq_length=None, micro_batch_sizes=(1, 2, 4, 8), ranks=None, repetitions=7,
            collectives=None):
    """Measures and returns weir.costs/1; writes it to `output`, and the all-reduces to
    `collectives`, where they are given."""
    torch_ranks.require("torch")
    import torch

    if layers == "megatron":
        if importlib.util.find_spec("megatron") is None:
            raise weir.MissingComponent("megatron.core: not in this Python")
        raise weir.MissingComponent("megatron.core: its layers are not measured; "
                                    "layers=transformers are")
    torch_ranks.require("transformers")
    cuda = torch.cuda.is_available()
    ranks = ranks or torch_ranks.default_ranks()
    if cuda and ranks > torch.cuda.device_count():
        raise weir.MissingComponent(f"pp {ranks}: there are {torch.cuda.device_count()} GPUs")
    plan = weir.plan(str(model), tp=tp, dtype=dtype, attention=attention, pp=1, microbatches=1,
                     **({"seq_length": seq_length} if seq_length else {}))
    said = weir.model(str(model))["layers"]
    from weir.torch_layers import FAMILIES, model_config

    settings = json.loads(pathlib.Path(model).read_text())
    if not isinstance(settings, dict) or settings.get("model_type") not in FAMILIES:
        raise weir.InputError(f"{model}: model_type: transformers' layers are measured of "
                              + " and ".join(FAMILIES))
    config = model_config(settings, attention)
    check_parameters(model, said, config)
    divided(config, tp)  # says what it does not divide before any process is started
    chain = chain_of(config)
    with tempfile.TemporaryDirectory() as folder:
        job = {"config": settings, "attention": attention, "tp": tp, "dtype": dtype,
               "layers": layers, "seq_length": plan.seq_length, "sizes": list(micro_batch_sizes),
               "chain": chain, "keys": [plan.layer_keys[index] for index in chain],
               "ranks": ranks, "repetitions": repetitions, "folder": folder}
        torch_ranks.run_ranks(ranks, measure, job)
        found = json.loads(pathlib.Path(folder, "found.json").read_text())
    machine = torch.cuda.get_device_name() if cuda else weir.commands.doctor()["machine"]
    costs = costs_of(job, found, machine, cuda)
    if collectives:
        if ranks < 2:
            raise weir.UsageError("collectives: one rank has none")
        write_whole(pathlib.Path(collectives),
                    nccl_test(found["collectives"], ranks, dtype, machine))
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
    options.add_argument("-o", "--output", metavar="FILE", help="costs file; else on stdout")
    request = vars(options.parse_args())
    for name in ("tp", "ranks", "repetitions", "seq_length"):
        if request[name] is not None and request[name] < 1:
            options.error(f"--{name.replace('_', '-')} {request[name]}: expected at least 1")
    costs = profile(**request)
    if request["output"] is None:
        print(json.dumps(costs, indent=1))
    else:
        print(f"{request['output']}: {len(costs['layers'])} layers, {costs['origin']}")
    return 0


if __name__ == "__main__":
    torch_ranks.run_as_command(main)
