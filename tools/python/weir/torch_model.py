"""Reads a module of one's own, nn.Sequential or whatever torch.export traces, as layers with their
sizes, and measures them as PyTorch runs them here: a model (weir.layers/1) and its costs
(weir.costs/1), which `weir plan NET.py:BUILD --from torch` takes up.

    python -m weir.torch_model net.py:build -o net
    weir sweep net.model.json --costs net.costs.json --pp 2

BUILD returns (module, example inputs), the first dimension of each input the samples."""
# SPDX-License-Identifier: Apache-2.0
import argparse
import collections
import contextlib
import datetime
import importlib
import importlib.util
import json
import pathlib
import sys
import tempfile

import weir
from weir import torch_ranks

DTYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}

TorchModel = collections.namedtuple("TorchModel", "model costs layers notes")
TorchModel.__doc__ = """model: path of a weir.layers/1, for weir.plan and weir.sweep; costs: Costs,
for weir.plan, weir.sweep and weir.simulate; layers: their names, kinds, sizes (for one sample) and
seconds; notes: a line each of what is to be known."""


def built(word):
    """(module, example inputs) of FILE.py:FUNCTION or PACKAGE:FUNCTION."""
    place, colon, function = word.rpartition(":")
    if not colon or not place or not function:
        raise weir.UsageError(f"{word}: expected FILE.py:FUNCTION or PACKAGE:FUNCTION")
    try:
        if place.endswith(".py"):
            file = pathlib.Path(place)
            if not file.is_file():
                raise weir.InputError(f"{place}: cannot be read")
            sys.path.insert(0, str(file.resolve().parent))  # it may import what is beside it
            spec = importlib.util.spec_from_file_location(file.stem, file)
            source = importlib.util.module_from_spec(spec)
            sys.modules[file.stem] = source
            spec.loader.exec_module(source)
        else:
            source = importlib.import_module(place)
        made = getattr(source, function)()
    except weir.Error:
        raise
    except Exception as error:  # whatever the user's own code raises
        raise weir.InputError(f"{word}: {type(error).__name__}: {error}") from None
    if not isinstance(made, tuple) or len(made) != 2:
        raise weir.InputError(f"{word}: expected (module, example inputs), it returns "
                              f"{type(made).__name__}")
    return made


def checked(module, inputs):
    """The inputs as a tuple of tensors that agree on how many samples they have."""
    import torch

    if not isinstance(module, torch.nn.Module):
        raise weir.InputError(f"module: expected a torch.nn.Module, not {type(module).__name__}")
    inputs = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    if not inputs or any(not torch.is_tensor(each) or each.dim() < 1 for each in inputs):
        raise weir.InputError("example_inputs: expected tensors whose first dimension is samples")
    if len({each.shape[0] for each in inputs}) > 1 or inputs[0].shape[0] < 1:
        raise weir.InputError("example_inputs: first dimensions differ: "
                              + ", ".join(str(each.shape[0]) for each in inputs))
    return tuple(inputs)


def dtype_of(module):
    """Of its weights, which must have one: what Weir calls it, and bytes of a number."""
    import torch

    kinds = {p.dtype for p in module.parameters() if p.is_floating_point()} or {torch.float32}
    names = sorted(str(kind).removeprefix("torch.") for kind in kinds)
    if len(kinds) > 1 or names[0] not in DTYPES:
        raise weir.InputError(f"module: weights of {' and '.join(names)}: expected one of "
                              + ", ".join(DTYPES))
    return DTYPES[names[0]], next(iter(kinds)).itemsize


@contextlib.contextmanager
def one_core(device):
    """A device of the CPU is one core, as elsewhere in Weir."""
    import torch

    threads = torch.get_num_threads()
    if device.type == "cpu":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def sized(layers, sizes, width):
    """Layers of weir.layers/1, and lines of what they do not say. A weight of several counts with
    the first."""
    counted, rows, notes = {}, [], []
    for layer, size in zip(layers, sizes):
        fresh, of_others = 0, {}
        for name, parameter in layer.module.named_parameters():
            if id(parameter) in counted:
                of_others[name] = counted[id(parameter)]
            else:
                counted[id(parameter)] = layer.name
                fresh += parameter.numel()
        for name, other in of_others.items():
            notes.append(f"{layer.name}: {name} is a weight of {other}, counted there")
        rows.append({"name": layer.name, "kind": "sized", "label": layer.kind, "parameters": fresh,
                     "flops_forward": size["flops"], "input": -(-size["input_bytes"] // width),
                     "keeps_input": size["keeps_input"], "kept": -(-size["kept_bytes"] // width),
                     "output": max(1, -(-size["output_bytes"] // width))})
    return rows, notes


def costs_of(found, link, device, dtype):
    """weir.costs/1. found: rows of {key, optimizer_s, times by micro-batch size}; layers of equal
    keys do equal work, and have their mean."""
    import torch

    cuda = device.type == "cuda"
    keyed = {}
    for row in found:
        keyed.setdefault(row["key"], []).append(row)

    def mean(rows, value):
        values = [value(row) for row in rows]
        return None if None in values else sum(values) / len(values)

    layers = []
    for key, rows in keyed.items():
        times = []
        for batch in rows[0]["times"]:
            at = {word: mean(rows, lambda row, word=word: row["times"][batch][word])
                  for word in ("f_s", "i_s", "w_s", "b_s", "spread")}
            times.append({"micro_batch_size": batch, **at, "scratch_bytes": 0})
        layers.append({"key": key, "optimizer_s": mean(rows, lambda row: row["optimizer_s"]),
                       "times": times})
    ones = dict.fromkeys(("f", "b", "i", "w", "r", "optimizer"), 1.0)
    today = datetime.datetime.now(datetime.timezone.utc).date()
    machine = torch.cuda.get_device_name() if cuda else weir.commands.doctor()["machine"]
    return {"schema": "weir.costs/1", "basis": "measured", "machine": machine,
            "backend": "cuda" if cuda else "cpu",
            "origin": f"your module, by weir.torch_model, {today}, PyTorch {torch.__version__}",
            "seq_length": 0, "dtype": dtype,
            "link": {"latency_s": link["latency_s"],
                     "bandwidth_bytes_per_s": link["bandwidth_bytes_per_s"]},
            "host_overhead_s": link["host_overhead_s"], "step_overhead_s": link["step_overhead_s"],
            "first_backward_in_w": False, "alone": ones, "correction": ones, "by_size": [],
            "fixed": 1.0, "interval": None, "range": None, "jitter": {},
            "disturbance": link["disturbance"],
            "overlap": {"compute_slowdown": 0, "transfer_slowdown": 0}, "layers": layers}


def checked_numbers(batch_sizes, crossing, repetitions):
    sizes = sorted(set(batch_sizes))
    for name, value, least in (("batch_sizes", sizes[0] if sizes else 0, 1),
                               ("crossing", crossing, 1), ("repetitions", repetitions, 2)):
        if value < least:
            raise weir.UsageError(f"{name} {value}: expected at least {least}")
    return sizes


def measured(module, inputs, sizes, crossing, repetitions):
    """(layers, their sizes, by micro-batch size their passes, their updates' seconds)."""
    from weir import torch_measure
    from weir.torch_graph import layers_of, resized

    device, by_size, layers = inputs[0].device, {}, None
    with one_core(device):
        for batch in sizes:
            samples = resized(inputs, batch)
            try:
                these = layers_of(module, samples, crossing)
            except ValueError as error:
                raise weir.InputError(str(error)) from None
            if layers and [each.name for each in layers] != [each.name for each in these]:
                raise weir.InputError(f"module: other layers with {batch} samples")
            layers = these
            by_size[batch] = torch_measure.measure(layers, samples, device, repetitions)
        updates = torch_measure.measure_updates(layers, device, repetitions)
        return layers, torch_measure.sizes(layers, samples), by_size, updates


def from_torch(module, example_inputs, output=None, batch_sizes=(1, 2, 4), crossing=1,
               repetitions=7, link=None):
    """A module of yours as a model and its costs, measured where its weights are (CPU or GPU).

    module: torch.nn.Module; example_inputs: a tensor or several, their first dimension samples.
    output: files begin with it: OUTPUT.model.json and OUTPUT.costs.json (default: of a folder that
    stays until this Python ends). crossing: tensors that may cross where a stage ends. link:
    {"latency_s", "bandwidth_bytes_per_s"} between ranks (default: measured between two processes
    of this machine). InputError names the child that cannot be traced."""
    torch_ranks.require("torch")
    from weir import torch_link
    from weir.torch_costs import write_whole

    inputs = checked(module, example_inputs)
    dtype, width = dtype_of(module)
    device = next((p.device for p in module.parameters()), inputs[0].device)
    inputs = tuple(each.to(device) for each in inputs)
    batch_sizes = checked_numbers(batch_sizes, crossing, repetitions)
    watch = weir.Watch()
    state = {name: tensor.clone() for name, tensor in module.named_buffers()}
    layers, sizes, by_size, updates = measured(module, inputs, batch_sizes, crossing, repetitions)
    for name, tensor in module.named_buffers():  # running means of norms, as they were
        tensor.copy_(state[name])
    rows, notes = sized(layers, sizes, width)
    if output is None:
        folder = tempfile.TemporaryDirectory()
        KEPT.append(folder)
        output = pathlib.Path(folder.name, "model")
    model, costs_file = (pathlib.Path(f"{output}.{kind}.json") for kind in ("model", "costs"))
    text = {"schema": "weir.layers/1", "name": type(module).__name__, "layers": rows}
    write_whole(model, json.dumps(text, indent=1) + "\n")
    keys = weir.plan(str(model), pp=1, microbatches=1, dtype=dtype).layer_keys
    found = [{"key": key, "optimizer_s": update,
              "times": {batch: by_size[batch][place] for batch in batch_sizes}}
             for place, (key, update) in enumerate(zip(keys, updates))]
    between = torch_link.between(device, [size["output_bytes"] for size in sizes], link)
    between["disturbance"] = watch.until_now()
    costs = costs_of(found, between, device, dtype)
    write_whole(costs_file, json.dumps(costs, indent=1) + "\n")
    shown = [{**row, **size, "times": each["times"], "optimizer_s": each["optimizer_s"]}
             for row, size, each in zip(rows, sizes, found)]
    return TorchModel(str(model), weir.load_costs(str(costs_file)), shown, notes)


KEPT = []  # folders of models that nobody named a file for


def sizes_of(text):
    return [int(word) for word in text.split(",")]


def main():
    options = argparse.ArgumentParser(
        prog="python -m weir.torch_model", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("build", help="FILE.py:FUNCTION or PACKAGE:FUNCTION")
    options.add_argument("-o", "--output", required=True, metavar="NAME",
                         help="writes NAME.model.json and NAME.costs.json")
    options.add_argument("--batch-sizes", type=sizes_of, default=[1, 2, 4],
                         help="samples of a micro-batch to measure (1,2,4)")
    options.add_argument("--crossing", type=int, default=1,
                         help="tensors that may cross where a stage ends (1)")
    options.add_argument("--repetitions", type=int, default=7)
    request = vars(options.parse_args())
    torch_ranks.require("torch")
    made = from_torch(*built(request.pop("build")), **request)
    for note in made.notes:
        print(f"weir: {note}", file=sys.stderr)
    parameters = sum(layer["parameters"] for layer in made.layers)
    print(f"weir: {made.model}: {len(made.layers)} layers, {parameters} parameters, measured by "
          f"your module", file=sys.stderr)
    return 0


if __name__ == "__main__":
    torch_ranks.run_as_command(main)
