# A model's layers one after the other, as a training step goes through them: each pass of each of
# them timed by itself, its update, and what it keeps from F to B.
# SPDX-License-Identifier: Apache-2.0
import statistics

import torch
import torch.distributed as dist
from torch.distributed.pipelining._backward import stage_backward_input, stage_backward_weight

from weir.torch_clock import WARM_UP, Clock, mean_over_ranks, spread
from weir.torch_layers import count_layers

IN_A_ROW = 3  # repetitions of one micro-batch size before the next has its turn
MOST_BLOCKS = 4  # of the model, measured one after the other: its caches hold no layer for long


def chain_of(config):
    """Indices of the layers that are measured: each kind, and several blocks."""
    last = count_layers(config) - 1
    return [0, *range(1, 1 + min(MOST_BLOCKS, last - 2)), last - 1, last]


class Chain:
    """Layers one after the other, each pass of each of them timed by itself."""

    def __init__(self, layers, words, length, device, dtype, splits=True):
        self.layers = [layer.to(device, dtype) for layer in layers]
        self.words, self.length, self.device = words, length, device
        self.clock = Clock(device)
        self.splits = splits  # I and W can be told apart

    def draw(self, batch):
        tokens = torch.randint(self.words, (batch, self.length + 1), device=self.device)
        return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    def loss(self, output, target):
        """Targets are drawn: Megatron's order of [token, sample] is as good as ours."""
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

        def optimizer(layers):
            return torch.optim.AdamW([p for layer in layers for p in layer.parameters()])

        def timed(update):
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
                seconds = [timed(update) for update in which]
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


class Seen:
    """Seconds of layers' passes by micro-batch size, layer key and kind, a value a repetition: the
    mean over equal layers."""

    def __init__(self, keys):
        self.keys, self.values = keys, {}

    def add(self, batch, rows):
        of_keys = self.values.setdefault(batch, {key: {} for key in self.keys})
        for key, kinds in of_keys.items():
            alike = [row for row, its in zip(rows, self.keys) if its == key]
            for kind in alike[0]:
                kinds.setdefault(kind, []).append(statistics.mean(row[kind] for row in alike))

    def medians(self):
        """By layer key and micro-batch size, the forward pass's spread beside."""
        found = {key: {} for key in self.keys}
        for batch, of_keys in self.values.items():
            for key, kinds in of_keys.items():
                found[key][batch] = {
                    **{kind: statistics.median(values) for kind, values in kinds.items()},
                    "spread": spread(kinds["f"])}
        return found


def measure_passes(chain, keys, sizes, repetitions):
    """(all ranks at work at once, rank 0 while the others wait): by layer key and micro-batch size
    medians over repetitions, of the first also the mean over ranks and what is kept. The second is
    None on the other ranks, and where there are none.

    A few repetitions of each in turn: a machine that is slow for some seconds is so for all sizes,
    and a median leaves it out."""
    busy, alone = Seen(keys), Seen(keys)
    several, leads = dist.get_world_size() > 1, dist.get_rank() == 0
    for begin in range(0, repetitions, IN_A_ROW):
        count = min(IN_A_ROW, repetitions - begin)
        for batch in sizes:
            for repetition in range(-WARM_UP, count):
                dist.barrier()
                rows = chain.once(batch)
                if repetition >= 0:
                    busy.add(batch, rows)
            dist.barrier()
            for repetition in range(-WARM_UP, count) if several and leads else ():
                rows = chain.once(batch)
                if repetition >= 0:
                    alone.add(batch, rows)
    found = busy.medians()
    for batch in sizes:
        kept = dict(zip(keys, chain.kept(batch)))
        for key in found:
            at = {kind: mean_over_ranks(value, None) for kind, value in found[key][batch].items()}
            found[key][batch] = {**at, "kept": kept[key]}
    return found, alone.medians() if several and leads else None
