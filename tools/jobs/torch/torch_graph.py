# A module of the user's as a chain of layers. The children of a Sequential are its layers as they
# stand; any other module is traced by torch.export and cut where at most `crossing` tensors cross,
# just before one of its children begins: branches and skips lie within layers, or are handed on.
# The exporter writes this text into its script, and the package `weir` has it as a module.
# SPDX-License-Identifier: Apache-2.0
import contextlib
import io
import logging

import torch


class Layer:
    """`module` takes what the one before returns: a tensor, or several. `name` is the child that
    begins there, as split_spec of torch.distributed.pipelining.pipeline takes it."""

    def __init__(self, name, kind, module):
        self.name, self.kind, self.module = name, kind, module


def all_tensors(value):
    """The tensors of a tensor, tuple, list or dict, in order."""
    if torch.is_tensor(value):
        return (value,)
    if isinstance(value, dict):
        value = value.values()
    if not isinstance(value, (tuple, list, type({}.values()))):
        return ()
    return tuple(tensor for each in value for tensor in all_tensors(each))


def resized(inputs, samples):
    """The example with so many samples: those it has, again and again."""
    def of(tensor):
        times = -(-samples // tensor.shape[0])
        return tensor.repeat(times, *[1] * (tensor.dim() - 1))[:samples].contiguous()
    return tuple(of(tensor) for tensor in inputs)


def children_in_sequence(module, prefix=""):
    found = []
    for name, child in module._modules.items():  # named_children() has one that runs twice once
        if type(child) is torch.nn.Sequential and len(child) > 0:
            found += children_in_sequence(child, f"{prefix}{name}.")
        else:
            found.append(Layer(prefix + name, type(child).__name__, child))
    return found


def traced(module, inputs):
    """Its graph of operators, in order. ValueError, naming a child, where it cannot be traced."""
    running = []  # children within each other whose forward has begun and not ended
    hooks = []

    def ended(*_):
        running.pop()  # a hook that returns something changes what the child returns

    for name, child in module.named_modules():
        hooks += [child.register_forward_pre_hook(lambda *_, name=name: running.append(name)),
                  child.register_forward_hook(ended)]
    log = logging.getLogger("torch.fx.experimental.symbolic_shapes")
    level = log.level
    log.setLevel(logging.CRITICAL)  # prints pages of what becomes one line here
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            return torch.export.export(module, inputs, strict=False).module(check_guards=False)
    except Exception as error:  # torch.export has dozens of kinds, and of the user's own
        where = (running[-1] if running else "") or type(module).__name__
        line = (str(error).strip().splitlines() or [""])[0]
        raise ValueError(f"{where}: torch.export cannot trace it: {type(error).__name__}: "
                         f"{line}") from None
    finally:
        log.setLevel(level)
        for hook in hooks:
            hook.remove()


def stack_of(node):
    """(key of the call, name of the child, kind) of each child that the operator is within."""
    stack = node.meta.get("nn_module_stack") or {}
    return [(key, name.split("@")[0], str(getattr(kind, "__name__", kind)).rsplit(".", 1)[-1])
            for key, (name, kind) in stack.items() if name.split("@")[0]]


def begins(node, before):
    """(name, kind) of the outermost child that begins with this operator, or None."""
    open_calls = {key for key, _, _ in stack_of(before)} if before is not None else set()
    return next(((name, kind) for key, name, kind in stack_of(node) if key not in open_calls),
                None)


def places_to_cut(steps, inputs, outputs):
    """[(index into steps, (name, kind), tensors that cross)] before each child that begins."""
    last_use = {}
    for index, node in enumerate(steps):
        for source in node.all_input_nodes:
            last_use[source] = index
    for source in outputs:
        last_use[source] = len(steps)
    alive, found = [node for node in inputs if node in last_use], []
    for index, node in enumerate(steps):
        alive = [each for each in alive if last_use.get(each, -1) >= index]
        starts = begins(node, steps[index - 1] if index else None)
        if starts:
            found.append((index, starts, list(alive)))
        alive.append(node)
    return found


def segment(root, steps, inputs, outputs):
    """Those operators as a module of its own; weights are those of the root."""
    graph, there = torch.fx.Graph(), {}
    for index, node in enumerate(inputs):
        there[node] = graph.placeholder(f"input_{index}")
    for node in steps:
        for source in node.all_input_nodes:
            if source.op == "get_attr" and source not in there:
                there[source] = graph.node_copy(source)
        there[node] = graph.node_copy(node, lambda source: there[source])
    for source in outputs:  # a weight that is handed out as it is
        if source not in there:
            there[source] = graph.node_copy(source)
    found = [there[source] for source in outputs]
    graph.output(found[0] if len(found) == 1 else tuple(found))
    return torch.fx.GraphModule(root, graph)


def cut(root, crossing):
    """The graph's layers. ValueError where it cannot be cut."""
    nodes = list(root.graph.nodes)
    inputs = [node for node in nodes if node.op == "placeholder"]
    steps = [node for node in nodes if node.op not in ("placeholder", "get_attr", "output")]
    outputs = [node for node in nodes if node.op == "output"][0].all_input_nodes
    places = places_to_cut(steps, inputs, outputs)
    if not places:
        raise ValueError("the module has no children that run: it cannot be cut")
    least = min((len(alive) for index, _, alive in places[1:]), default=0)
    first, *others = places
    places = [first, *(place for place in others if 0 < len(place[2]) <= crossing)]
    if len(places) == 1 and least > crossing:
        raise ValueError(f"at least {least} tensors cross each place where a child begins: "
                         f"crossing {crossing} cuts it nowhere, {least} does")
    found, names = [], {}
    for place, (index, (name, kind), alive) in enumerate(places):
        after = places[place + 1] if place + 1 < len(places) else (len(steps), None, outputs)
        begin = 0 if place == 0 else index
        names[name] = names.get(name, 0) + 1  # a child that runs again
        shown = name if names[name] == 1 else f"{name}@{names[name]}"
        found.append(Layer(shown, kind, segment(
            root, steps[begin:after[0]], inputs if place == 0 else alive, after[2])))
    return found


def layers_of(module, inputs, crossing=1):
    """The module as layers in the order they run. inputs: a tuple of tensors, the first dimension
    of each the samples; a graph holds for that many samples alone. ValueError: says why not."""
    if type(module) is torch.nn.Sequential and len(inputs) == 1:
        return children_in_sequence(module)
    return cut(traced(module, inputs), crossing)
