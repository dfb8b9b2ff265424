# Layers of a user's module one after the other, as a training step goes through them: what each
# computes, keeps and hands on, and how long its passes take.
# SPDX-License-Identifier: Apache-2.0
import statistics

import torch

from weir.torch_clock import WARM_UP, Clock, spread
from weir.torch_graph import all_tensors


def fresh(values):
    """What a stage receives: its gradients end here."""
    return tuple(value.detach().requires_grad_(value.is_floating_point()) for value in values)


def walk(layers, inputs):
    """(layer, what it takes) in order."""
    values = tuple(value.detach() for value in inputs)  # of the model itself: no gradient
    for layer in layers:
        yield layer, values
        with torch.no_grad():
            values = fresh(all_tensors(layer.module(*values)))


def bytes_of(values):
    return sum(value.numel() * value.element_size() for value in values)


def size_of(layer, values, samples):
    """Bytes and FLOPs of one sample. What is kept counts each memory once, without weights; the
    input, where it is kept, apart."""
    from torch.utils.flop_counter import FlopCounterMode

    own = {tensor.untyped_storage().data_ptr() for tensor in
           (*layer.module.parameters(), *layer.module.buffers())}
    entering = {value.untyped_storage().data_ptr() for value in values}
    kept, keeps_input = {}, False

    def pack(tensor):
        nonlocal keeps_input
        storage = tensor.untyped_storage()
        if storage.data_ptr() in entering:
            keeps_input = True
        elif storage.data_ptr() not in own:
            # The storage is held, so that no later one gets its address.
            kept[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = all_tensors(layer.module(*values))
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        layer.module(*values)
    return {"flops": counter.get_total_flops() / samples,
            "input_bytes": bytes_of(values) // samples, "keeps_input": keeps_input,
            "kept_bytes": sum(each.nbytes() for each in kept.values()) // samples,
            "output_bytes": bytes_of(output) // samples}


def sizes(layers, inputs):
    return [size_of(layer, values, inputs[0].shape[0]) for layer, values in walk(layers, inputs)]


def timed(clock, work):
    begin = clock.mark()
    result = work()
    return clock.between(begin, clock.mark()), result


def backward_apart(clock, output, gradients, values, parameters):
    """Seconds of the backward for the input and for the weights, as torch.distributed.pipelining
    divides it; (None, None) where it cannot."""
    from torch.distributed.pipelining._backward import stage_backward_input, stage_backward_weight

    taken = [value for value in values if value.requires_grad]
    try:
        input_s, (_, groups) = timed(clock, lambda: stage_backward_input(
            output, gradients, taken, iter(parameters)))
        weight_s, _ = timed(clock, lambda: stage_backward_weight(iter(parameters), groups))
    except (RuntimeError, AssertionError):
        return None, None
    return input_s, weight_s


def passes_of(layer, values, clock):
    """Seconds of F, B, I and W once."""
    parameters = [p for p in layer.module.parameters() if p.requires_grad]
    forward_s, output = timed(clock, lambda: all_tensors(layer.module(*fresh_like(values))))
    del output
    taken = fresh_like(values)
    output = tuple(each for each in all_tensors(layer.module(*taken)) if each.requires_grad)
    if not output:
        return {"f_s": forward_s, "b_s": 0.0, "i_s": 0.0, "w_s": 0.0}
    gradients = [torch.ones_like(each) for each in output]
    backward_s, _ = timed(clock, lambda: torch.autograd.backward(output, gradients))
    has_input = any(value.requires_grad for value in taken)
    if not has_input or not parameters:  # one of the halves is all of it
        return {"f_s": forward_s, "b_s": backward_s, "i_s": 0.0 if not has_input else backward_s,
                "w_s": backward_s if not has_input else 0.0}
    taken = fresh_like(values)
    output = tuple(each for each in all_tensors(layer.module(*taken)) if each.requires_grad)
    input_s, weight_s = backward_apart(clock, output, gradients, taken, parameters)
    return {"f_s": forward_s, "b_s": backward_s, "i_s": input_s, "w_s": weight_s}


def fresh_like(values):
    """The same numbers, which need gradients where they did."""
    return tuple(value.detach().requires_grad_(value.requires_grad) for value in values)


def measure(layers, inputs, device, repetitions):
    """For each layer the medians of its passes' seconds, and the spread of F."""
    clock, seen = Clock(device), [[] for _ in layers]
    chain = list(walk(layers, inputs))
    for repetition in range(-WARM_UP, repetitions):
        for place, (layer, values) in enumerate(chain):
            row = passes_of(layer, values, clock)
            if repetition >= 0:
                seen[place].append(row)
    for layer in layers:
        layer.module.zero_grad(set_to_none=True)
    found = []
    for rows in seen:
        columns = {word: [row[word] for row in rows] for word in rows[0]}
        found.append({word: None if None in values else statistics.median(values)
                      for word, values in columns.items()} | {"spread": spread(columns["f_s"])})
    return found


def measure_updates(layers, device, repetitions):
    """Seconds of AdamW on each layer's weights; one of several layers with the first."""
    clock, done, found = Clock(device), set(), []
    for layer in layers:
        # Copies: the user's own weights stay as they are.
        own = [p for p in layer.module.parameters() if p.requires_grad and id(p) not in done]
        done.update(map(id, own))
        if not own:
            found.append(0.0)
            continue
        copies = [torch.nn.Parameter(p.detach().clone()) for p in own]
        for copy in copies:
            copy.grad = torch.zeros_like(copy)
        optimizer = torch.optim.AdamW(copies)
        times = [timed(clock, optimizer.step)[0] for _ in range(WARM_UP + repetitions)]
        found.append(statistics.median(times[WARM_UP:]))
    return found
