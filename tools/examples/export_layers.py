#!/usr/bin/env python3
"""Writes the layers.csv that `weir` reads from any torch.nn.Module: its leaves in the order they
run, each measured alone.

export_layers.py torchvision.models:resnet18 8,3,224,224 layers.csv
export_layers.py config.json tokens:4,1024 layers.csv --whole LlamaAttention

MODEL is a function that makes one, or a Hugging Face config.json, whose weights are then random.
`tokens:` gives whole numbers below the first embedding's size. A leaf is a module that runs none
other inside it; --whole CLASS (repeatable) makes leaves of larger ones. Or, from Python,
export(module, example_input, path).

Figures are per sample of the example's first dimension. A tied weight counts once, with the first
leaf that uses it; parameters that belong to no leaf count with the first leaf that runs inside
their module, or around it where that is not called, and are named. What a forward() does between
leaves is not measured: modules whose matrix products are outside of leaves are named. Rectifiers
are run out of place, and a tensor that two neighbours keep counts for both. An encoder and its
decoder get the same tokens."""
# SPDX-License-Identifier: Apache-2.0
import argparse, collections, csv, importlib, statistics, sys, time

try:
    import torch
except ImportError:
    raise SystemExit("export_layers.py: needs PyTorch, which is not installed")


def milliseconds(work, times=()):
    while len(times) < 9:
        start = time.perf_counter()
        work()
        if torch.cuda.is_available(): torch.cuda.synchronize()
        times = (*times, (time.perf_counter() - start) * 1e3)
    return statistics.median(times[2:])  # the first two warm up


def mapped(value, change):
    """The same structure with every tensor changed."""
    if torch.is_tensor(value): return change(value)
    if isinstance(value, dict): return {key: mapped(v, change) for key, v in value.items()}
    if hasattr(value, "_fields"): return type(value)(*(mapped(v, change) for v in value))
    if type(value) in (tuple, list): return type(value)(mapped(v, change) for v in value)
    return value


def tensors(value):
    found = []
    mapped(dict(value) if isinstance(value, dict) else value, lambda x: found.append(x) or x)
    return found


def measure(leaf, arguments, keywords):
    """Milliseconds of F, I and W, bytes kept for the backward, bytes of the output."""
    arguments, keywords = mapped(
        (tuple(arguments), dict(keywords)),
        lambda x: x.detach().requires_grad_(x.is_floating_point()),
    )
    inputs = tensors((arguments, keywords))
    kept = {}  # each memory once
    with torch.autograd.graph.saved_tensors_hooks(
        lambda x: kept.update({x.data_ptr(): x}) or x, lambda x: x
    ):
        output = leaf.forward(*arguments, **keywords)
    trained = [x for x in tensors(output) if x.requires_grad]
    def backward(sources):
        sources = [x for x in sources if x.requires_grad]
        if not sources or not trained: return 0.0
        ones = [torch.ones_like(x) for x in trained]
        return milliseconds(
            lambda: torch.autograd.grad(
                trained, sources, ones, retain_graph=True, allow_unused=True
            )
        )
    times = (
        milliseconds(lambda: leaf.forward(*arguments, **keywords)),
        backward(inputs),
        backward(leaf.parameters()),
    )
    for weight in leaf.parameters(): kept.pop(weight.data_ptr(), None)
    first = next(iter(tensors(output)), None)  # of several, what goes on to the next layer
    return (
        *times,
        sum(x.numel() * x.element_size() for x in kept.values()),
        0 if first is None else first.numel() * first.element_size(),
    )


def forward(module, example):
    """Encoder and decoder get the same tokens."""
    pair = getattr(getattr(module, "config", None), "is_encoder_decoder", False)
    if not pair or example.is_floating_point(): return module(example)
    return module(example, decoder_input_ids=example)


def depends_on(module, example, parameters):
    """Which of the parameters the forward's output does depend on, whether their modules run or
    not: of those not trained it cannot be told, and they count."""
    output = [x.sum() for x in tensors(forward(module, example)) if x.requires_grad]
    trained = [p for p in parameters if p.requires_grad]
    if not output or not trained: return list(parameters)
    gradients = torch.autograd.grad(output, trained, allow_unused=True)
    unused = {id(p) for p, gradient in zip(trained, gradients) if gradient is None}
    return [p for p in parameters if id(p) not in unused]


def run(module, example, hook, before=None):
    """The forward, with hooks on every module as it ends and begins."""
    hooks = [m.register_forward_hook(hook, with_kwargs=True) for m in module.modules()]
    if before: hooks += [m.register_forward_pre_hook(before) for m in module.modules()]
    try:
        forward(module, example)
    finally:
        for each in hooks: each.remove()


def leaves_of(module, example, whole):
    """The modules that run without another inside, or are of a class to be measured whole."""
    leaves, open_modules, within = set(), [], set()
    def begin(m, _):
        open_modules.append(m)
        within.discard(id(m))
    def end(m, *_):
        open_modules.pop()
        if type(m).__name__ in whole or id(m) not in within: leaves.add(m)
        within.update(map(id, open_modules))
    run(module, example, end, begin)
    inside = {id(c) for leaf in leaves for c in leaf.modules() if c is not leaf}
    return {leaf for leaf in leaves if id(leaf) not in inside}


def products_outside(module, example, leaves):
    """Share of the forward's matrix products that each class of module does outside of leaves."""
    from torch.utils.flop_counter import FlopCounterMode

    outside = collections.Counter()
    counter = FlopCounterMode(display=False)
    inside = {m for leaf in leaves for m in leaf.modules()}
    started = []  # of each open module: what was done before it, and in those within
    def begin(m, _):
        started.append([counter.get_total_flops(), 0])
    def end(m, *_):
        start, inner = started.pop()
        total = counter.get_total_flops() - start
        if started: started[-1][1] += total
        if m not in inside: outside[type(m).__name__] += total - inner
    with torch.no_grad(), counter: run(module, example, end, begin)
    done = max(1, counter.get_total_flops())
    return {name: flops / done for name, flops in outside.items()}


def export(module, example, path, whole=(), say=lambda line: print(line, file=sys.stderr)):
    for m in module.modules(): m.inplace = False
    if hasattr(module, "config"): module.config.use_cache = False  # a cache grows with each run
    names = {m: name or "layer" for name, m in module.named_modules()}
    missing = set(whole) - {type(m).__name__ for m in names}
    if missing: raise SystemExit(f"--whole {min(missing)}: the model has no module of that class")
    leaves = leaves_of(module, example, set(whole))
    of_leaves = {id(p) for leaf in leaves for p in leaf.parameters()}
    # Parameters of no leaf, by the module that has them; a tied one is its first's.
    stray, counted, rows = {}, {}, []
    for name, p in module.named_parameters():
        if id(p) not in of_leaves: stray[name] = p
    measuring = []
    def record(leaf, arguments, keywords, _):
        if leaf not in leaves or measuring: return
        measuring.append(leaf)
        figures = [figure / example.shape[0] for figure in measure(leaf, arguments, keywords)]
        measuring.pop()
        *times, kept, output = figures
        mine = {id(p): p for p in leaf.parameters()}
        for shared in {counted[i] for i in mine if i in counted} - {names[leaf]}:
            say(f"{names[leaf]}: shares weights with {shared}, counted there")
        for name in list(stray):
            owner = name.rpartition(".")[0]
            if owner and not names[leaf].startswith(owner + "."): continue
            p = stray.pop(name)
            say(f"{name}: {p.numel()} parameters of no leaf, counted with {names[leaf]}")
            mine[id(p)] = p
        fresh = {i: p for i, p in mine.items() if i not in counted}
        counted.update({i: names[leaf] for i in fresh})
        rows.append(
            [
                names[leaf],
                type(leaf).__name__,
                sum(p.numel() for p in fresh.values()),
                *(f"{t:.6f}" for t in times),
                int(kept),
                int(output),
                1,
            ]
        )
    run(module, example, record)
    used = {id(p) for p in depends_on(module, example, stray.values())} if stray else set()
    for name, p in stray.items():
        if id(p) not in used:
            say(f"{name}: {p.numel()} parameters that nothing uses in this forward, left out")
            continue
        owner, row = name, None  # its module is not called: the nearest around it that has a leaf
        while row is None:
            owner = owner.rpartition(".")[0]
            row = next((r for r in rows if not owner or r[0].startswith(owner + ".")), None)
        row[2] += p.numel()
        say(f"{name}: {p.numel()} parameters of a module that is not called, counted with {row[0]}")
    for name, share in products_outside(module, example, leaves).items():
        if share < 0.005: continue
        say(
            f"{name}: {100 * share:.0f} % of the forward's matrix products are done in it outside "
            f"of leaves and not measured; --whole {name} measures it whole"
        )
    header = "name kind parameters f_ms i_ms w_ms activation_bytes boundary_bytes count".split()
    with open(path, "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])


def made(model):
    if not model.endswith(".json"):
        package, _, function = model.partition(":")
        if not function: raise SystemExit(f"{model}: expected PACKAGE:FUNCTION or a config.json")
        return getattr(importlib.import_module(package), function)()
    import transformers

    config = transformers.AutoConfig.from_pretrained(model)
    if not config.architectures: raise SystemExit(f"{model}: architectures: is missing")
    return getattr(transformers, config.architectures[0])(config)


def example_of(shape, module):
    kind, _, sizes = shape.rpartition(":")
    sizes = [int(size) for size in sizes.split(",")]
    if not kind: return torch.randn(*sizes)
    if kind != "tokens": raise SystemExit(f"{shape}: expected 8,3,224,224 or tokens:4,1024")
    embeddings = [m for m in module.modules() if isinstance(m, torch.nn.Embedding)]
    if not embeddings: raise SystemExit(f"{shape}: the model has no embedding of tokens")
    return torch.randint(embeddings[0].num_embeddings, sizes)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", help="PACKAGE:FUNCTION or a Hugging Face config.json")
    parser.add_argument("shape", help="8,3,224,224 or tokens:4,1024")
    parser.add_argument("layers", help="the file to write, layers.csv")
    parser.add_argument("--whole", action="append", default=[], metavar="CLASS")
    arguments = parser.parse_args()
    network = made(arguments.model)
    export(network, example_of(arguments.shape, network), arguments.layers, arguments.whole)
