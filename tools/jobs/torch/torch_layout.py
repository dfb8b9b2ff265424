# The operations of a network of named dimensions on DTensors. Each is done on local blocks, whose
# placements follow from the dimensions alone: one that is split is Shard; where a summed dimension
# is split the result is Partial; all else is Replicate. Blocks travel as values change placements
# (DTensor.redistribute), backwards too. The exporter writes this text into its script.
# SPDX-License-Identifier: Apache-2.0
import math
import os
import string

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

EPSILON = 1e-5
FUNCTIONS = {"gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
             "relu": F.relu, "sigmoid": torch.sigmoid, "silu": F.silu, "tanh": torch.tanh}


class Value:
    """A tensor and the names of its dimensions; plain where there is no mesh, else a DTensor."""

    def __init__(self, tensor, dims):
        self.tensor, self.dims = tensor, dims


class Mesh:
    """The devices, and which dimensions are split over which of their axes."""

    def __init__(self, mesh, axes, rules):
        self.mesh, self.axes, self.rules = mesh, axes, rules

    def split(self, axis, dims):
        """The dimension of these that is on an axis, else None."""
        return next((d for d in dims if axis in self.rules.get(d, ())), None)

    def placements(self, dims, summed=(), how="sum"):
        """Of a block with these dimensions, a sum (or maximum) over those besides."""
        placed = []
        for axis in self.axes:
            on = self.split(axis, dims)
            partial = self.split(axis, [d for d in summed if d not in dims]) is not None
            placed.append(Shard(dims.index(on)) if on is not None
                          else Partial(how) if partial else Replicate())
        return placed

    def begin(self, dim, size):
        """Where this device's part of a dimension begins, a part being `size` long."""
        place = 0
        for axis in self.axes:
            if axis in self.rules.get(dim, ()):
                parts = self.mesh.size(self.axes.index(axis))
                place = place * parts + self.mesh.get_local_rank(axis)
        return place * size

    def whole(self, value):
        """A sum of parts made whole."""
        if self.mesh is None or not any(p.is_partial() for p in value.tensor.placements):
            return value
        placed = [Replicate() if p.is_partial() else p for p in value.tensor.placements]
        return Value(value.tensor.redistribute(placements=placed), value.dims)

    def local(self, function, inputs, dims, how="sum"):
        """function on local blocks. A gradient of an input is a sum of parts over each axis that
        splits a dimension of the others and none of its own."""
        if self.mesh is None:
            return Value(function(*[one.tensor for one in inputs]), dims)
        inputs = [self.whole(one) for one in inputs]
        seen = [d for one in inputs for d in one.dims] + list(dims)
        blocks = [one.tensor.to_local(grad_placements=self.placements(one.dims, seen))
                  for one in inputs]
        block = function(*blocks)
        placed = self.placements(dims, seen, how)
        made = DTensor.from_local(block, self.mesh, placed, run_check=False)
        return Value(made, dims)

    def move(self, value, dims):
        """The same numbers under other names; what travels follows from the placements."""
        if self.mesh is None:
            return Value(value.tensor, dims)
        return Value(value.tensor.redistribute(placements=self.placements(dims)), dims)

    def reduced(self, function, value, over, how="sum"):
        """A statistic of each row, made whole."""
        dims = [d for d in value.dims if d != over]
        at = value.dims.index(over)
        return self.whole(self.local(lambda x: function(x, at), [value], dims, how))


def aligned(tensor, dims, to):
    """With the dimensions of `to` in their order, 1 wide where it has none."""
    order = [d for d in to if d in dims]
    tensor = tensor.permute([dims.index(d) for d in order])
    return tensor.reshape([tensor.shape[order.index(d)] if d in order else 1 for d in to])


def product(mesh, inputs, dims, over):
    letters = {}
    for d in [d for one in inputs for d in one.dims] + list(dims):
        letters.setdefault(d, string.ascii_letters[len(letters)])
    words = ["".join(letters[d] for d in each) for each in [*(one.dims for one in inputs), dims]]
    equation = ",".join(words[:-1]) + "->" + words[-1]
    return mesh.local(lambda *x: torch.einsum(equation, *x), inputs, dims)


def add(mesh, inputs, dims, over):
    named = [one.dims for one in inputs]
    return mesh.local(lambda *x: sum(aligned(a, d, dims) for a, d in zip(x, named)), inputs, dims)


def softmax(mesh, inputs, dims, over):
    (x,) = inputs
    x, at = mesh.whole(x), x.dims.index(over)
    most = mesh.reduced(lambda t, i: t.amax(i), Value(x.tensor.detach(), x.dims), over, "max")
    powers = mesh.local(lambda t, m: (t - m.unsqueeze(at)).exp(), [x, most], x.dims)
    sums = mesh.reduced(lambda t, i: t.sum(i), powers, over)
    named = x.dims
    return mesh.local(lambda t, s: aligned(t / s.unsqueeze(at), named, dims), [powers, sums], dims)


def normed(mesh, inputs, dims, over, size, centred):
    x, *gains = [mesh.whole(one) for one in inputs]
    at, named = x.dims.index(over), [one.dims for one in gains]
    squares = mesh.reduced(lambda t, i: (t * t).sum(i), x, over)
    sums = mesh.reduced(lambda t, i: t.sum(i), x, over) if centred else None
    around = x.dims

    def scaled(t, square, *rest):
        mean = rest[0].unsqueeze(at) / size if centred else 0.0
        variance = square.unsqueeze(at) / size - mean * mean
        y = (t - mean) * torch.rsqrt(variance + EPSILON)
        own = [aligned(g, d, around) for g, d in zip(rest[1:] if centred else rest, named)]
        for place, gain in enumerate(own):
            y = y * gain if place == 0 else y + gain
        return aligned(y, around, dims)

    return mesh.local(scaled, [x, squares, *([sums] if centred else []), *gains], dims)


def picked(mesh, x, over, where, dims):
    """Numbers of x along `over` at the places `where`, a part of which this device has."""
    at, named, rest = x.dims.index(over), x.dims, [d for d in x.dims if d != over]

    def take(table, places):
        size = table.shape[at]
        mine = places - (mesh.begin(over, size) if mesh.mesh is not None else 0)
        here = (mine >= 0) & (mine < size)
        mine = mine.clamp(0, size - 1)
        shared = [d for d in rest if d in where.dims]
        if shared:  # one number of each row
            order = [*where.dims, over]
            rows = table.permute([named.index(d) for d in order])
            found = rows.gather(-1, mine.unsqueeze(-1)).squeeze(-1)
            return aligned(found * here, where.dims, dims)
        found = table.movedim(at, 0)[mine] * here.reshape(*here.shape, *[1] * len(rest))
        return aligned(found, [*where.dims, *rest], dims)

    return mesh.local(take, [x, where], dims)


def cross_entropy(mesh, inputs, dims, over, targets):
    (x,) = inputs
    x, at = mesh.whole(x), x.dims.index(over)
    most = mesh.reduced(lambda t, i: t.amax(i), Value(x.tensor.detach(), x.dims), over, "max")
    powers = mesh.local(lambda t, m: (t - m.unsqueeze(at)).exp(), [x, most], x.dims)
    sums = mesh.reduced(lambda t, i: t.sum(i), powers, over)
    its = mesh.whole(picked(mesh, x, over, targets, sums.dims))
    named = sums.dims
    return mesh.local(lambda s, m, t: aligned(s.log() + m - t, named, dims), [sums, most, its],
                      dims)


class Network(torch.nn.Module):
    """The network on a DeviceMesh, or whole without one. Weights are those of the seed either
    way; placements are of DTensor's `distribute_tensor`."""

    def __init__(self, mesh=None, seed=SEED):
        super().__init__()
        self.mesh = Mesh(mesh, list(MESH), RULES)
        self.seed, self.weights = seed, torch.nn.ParameterDict()
        for layer, copy in copies():
            for name, (role, dims) in layer["tensors"].items():
                if role != "weight":
                    continue
                elements = math.prod(DIMENSIONS[d] for d in dims)
                drawn = self.drawn(f"{layer['name']}.{copy}.{name}", dims) * elements ** -0.25
                key = key_of(layer, copy, name)
                self.weights[key] = torch.nn.Parameter(self.placed(drawn, dims, layer, name))
                if mesh is not None:
                    self.weights[key].register_post_accumulate_grad_hook(make_gradient_whole)

    def drawn(self, what, dims, below=None):
        """Numbers of a tensor, or integers below `below`, the same on every device."""
        draw = torch.Generator().manual_seed(self.seed * 1_000_003 + sum(
            (i + 1) * ord(letter) for i, letter in enumerate(what)))
        shape = [DIMENSIONS[d] for d in dims]
        if below is not None:
            return torch.randint(below, shape, generator=draw)
        return torch.randn(shape, generator=draw)

    def placed(self, tensor, dims, layer=None, name=None):
        if self.mesh.mesh is None:
            return tensor
        placements = PLACEMENTS[layer["name"]][name] if layer else self.mesh.placements(dims)
        return distribute_tensor(tensor, self.mesh.mesh, placements)

    def forward(self):
        """The mean of all losses, or of the last layer's numbers where there are none."""
        made, losses = {}, []
        for layer, copy in copies():
            values = {}
            for place, (name, source) in enumerate(layer["given"].items()):
                source = layer["name"] if copy > 0 and place == 0 else source
                dims = layer["tensors"][name][1]
                where = f"{layer['name']}.{name}"
                values[name] = (Value(made[source].tensor, dims) if source != "data" else
                                Value(self.placed(self.drawn(where, dims), dims), dims))
            for operation in layer["operations"]:
                self.run(operation, layer, copy, values, losses)
            made[layer["name"]] = self.mesh.whole(values[operation["output"]])
        ends = losses or [made[layer["name"]]]
        sums = [self.mesh.whole(self.mesh.local(torch.sum, [end], [])).tensor for end in ends]
        sums = [s.to_local() if self.mesh.mesh is not None else s for s in sums]
        return sum(sums) / sum(math.prod(DIMENSIONS[d] for d in end.dims) for end in ends)

    def integers(self, layer, copy, name, dims, below):
        drawn = self.drawn(f"{layer['name']}.{copy}.{name}.integers", dims, below)
        return Value(self.placed(drawn, dims), dims)

    def weight(self, layer, copy, name):
        """A tied weight is that of the first layer that has one of the name."""
        role, dims = layer["tensors"][name]
        key = key_of(layer, copy, name)
        if role == "tied":
            key = next(k for k in self.weights if k.endswith("/" + name))
        return Value(self.weights[key], dims)

    def run(self, operation, layer, copy, values, losses):
        act, output, over = operation["act"], operation["output"], operation["over"]
        inputs = [values[i] if i in values else self.weight(layer, copy, i)
                  for i in operation["inputs"]]
        dims = layer["tensors"][output][1]
        first, mesh = inputs[0], self.mesh
        if act in ("product", "weigh"):
            value = product(mesh, inputs, dims, over)
        elif act == "apply":
            function = FUNCTIONS[operation["function"]]
            value = mesh.local(lambda x: aligned(function(x), first.dims, dims), [first], dims)
        elif act == "glu":
            at, rest = first.dims.index(over), [d for d in first.dims if d != over]
            value = mesh.local(
                lambda x: aligned(x.select(at, 0) * F.silu(x.select(at, 1)), rest, dims),
                [first], dims)
        elif act == "add":
            value = add(mesh, inputs, dims, over)
        elif act in ("norm", "rms_norm"):
            value = normed(mesh, inputs, dims, over, DIMENSIONS[over], act == "norm")
        elif act == "softmax":
            value = softmax(mesh, inputs, dims, over)
        elif act == "gather":
            places = [d for d in dims if d not in first.dims]
            where = self.integers(layer, copy, output, places, DIMENSIONS[over])
            value = picked(mesh, first, over, where, dims)
        elif act == "loss":
            targets = self.integers(layer, copy, output, dims, DIMENSIONS[over])
            value = cross_entropy(mesh, inputs, dims, over, targets)
            losses.append(value)
        else:
            value = mesh.move(first, dims)
        values[output] = value


def copies():
    """Each layer of the network, and which of its repetitions."""
    return [(layer, copy) for layer in LAYERS for copy in range(layer["repeat"])]


def key_of(layer, copy, weight):
    """A module's parameters have no dots in their names, so that two layers' may be alike without
    them: the layer's number tells these apart."""
    return f"{LAYERS.index(layer)}:{layer['name'].replace('.', '_')}/{copy}/{weight}"


def make_gradient_whole(weight):
    """Parts of a weight's gradient are added up once a step."""
    if any(p.is_partial() for p in weight.grad.placements):
        weight.grad = weight.grad.redistribute(placements=weight.placements)
