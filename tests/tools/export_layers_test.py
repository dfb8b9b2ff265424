#!/usr/bin/env python3
"""export_layers.py on a network small enough to follow by hand, read back by `weir model`. Skips
without PyTorch. Usage: export_layers_test.py SOURCE_DIR WEIR."""
# SPDX-License-Identifier: Apache-2.0
import collections
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile

source, weir = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
script = source / "tools/examples/export_layers.py"
try:
    import torch
except ImportError:
    refused = subprocess.run([sys.executable, script, "a:b", "1"], capture_output=True, text=True)
    assert (
        refused.returncode == 1
        and refused.stderr == "export_layers.py: needs PyTorch, which is not installed\n"
    ), refused
    print("skipped: no PyTorch")
    sys.exit(77)

sys.path.insert(0, str(script.parent))
from export_layers import export

# fp32, batches of 4. Convolution 3 -> 16 channels, 3x3: 3 16 9 + 16 = 448 parameters; it keeps its
# input, 3 32 32 4 = 12,288 bytes a sample, and gives 16 32 32 4 = 65,536. The rectifier keeps its
# output. The linear layer has 16 32 32 10 + 10 parameters, keeps its input and gives 40 bytes.
# Flattening keeps nothing, and gives what it got.
net = torch.nn.Sequential(
    torch.nn.Conv2d(3, 16, 3, padding=1),
    torch.nn.ReLU(inplace=True),
    torch.nn.Flatten(),
    torch.nn.Linear(16 * 32 * 32, 10),
)
expected = [("Conv2d", 448, 12288, 65536), ("ReLU", 0, 65536, 65536), ("Flatten", 0, 0, 65536),
            ("Linear", 163850, 65536, 40)]
with tempfile.TemporaryDirectory() as folder:
    file = pathlib.Path(folder) / "layers.csv"
    export(net, torch.randn(4, 3, 32, 32), file)
    rows = list(csv.DictReader(file.open()))
    got = [
        (r["kind"], *(int(r[c]) for c in ("parameters", "activation_bytes", "boundary_bytes")))
        for r in rows
    ]
    assert got == expected, got
    assert all(float(r["f_ms"]) > 0 for r in rows), rows
    assert [float(r["w_ms"]) > 0 for r in rows] == [True, False, False, True], rows
    model = json.loads(
        subprocess.run([weir, "model", file, "--json"], check=True, capture_output=True).stdout
    )
    assert model["parameters"] == 448 + 163850, model["parameters"]

    twice = torch.nn.Linear(8, 8)  # runs twice: its 72 parameters once
    export(torch.nn.Sequential(twice, torch.nn.Tanh(), twice), torch.randn(2, 8), file)
    rows = list(csv.DictReader(file.open()))
    assert [int(r["parameters"]) for r in rows] == [72, 0, 0], rows

    # 8 tokens of width 4: a table of 10 that the head uses again, a shift of the model's own, an
    # attention of 4 4 3 + 4 3 weights that no leaf of its own multiplies by, and a head that is
    # called by keyword. Each weight counts once: 40 + 4 + (60 + 20) + 0, and the head's bias of 10.
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Embedding(10, 4)
            self.shift = torch.nn.Parameter(torch.zeros(4))
            self.unused = torch.nn.Parameter(torch.zeros(3))
            self.attention = torch.nn.MultiheadAttention(4, 2, batch_first=True)
            self.head = torch.nn.Linear(4, 10)
            self.head.weight = self.table.weight

        def forward(self, tokens):
            x = self.table(tokens) + self.shift
            x = self.attention(x, x, x)[0]
            return self.head(input=x @ x.transpose(1, 2) @ x)

    said = []
    export(Tied(), torch.randint(10, (2, 8)), file, say=said.append)
    rows = list(csv.DictReader(file.open()))
    assert [(r["name"], int(r["parameters"])) for r in rows] == [
        ("table", 40 + 4 + 3), ("attention", 80), ("head", 10)], rows
    # Two products of 8 8 4, beside 3 of 8 4 4 and one in the attention's own, of 8 8 2 for 2 heads
    # twice, and the head's 8 4 10.
    own, rest = 2 * 8 * 8 * 4, 4 * 8 * 4 * 4 + 2 * 2 * 8 * 8 * 2 + 8 * 4 * 10
    assert said == [
        "shift: 4 parameters of no leaf, counted with table",
        "unused: 3 parameters of no leaf, counted with table",
        "head: shares weights with table, counted there",
        f"Tied: {100 * own / (own + rest):.0f} % of the forward's matrix products are done in it "
        "outside of leaves and not measured; --whole Tied measures it whole",
    ], said
    assert float(rows[2]["w_ms"]) > 0, rows

    # A layer's weights may be used though it is not called (4 4 + 4, Mamba's projections), and
    # may be of no use (4 5 + 5). Leaves may hand on a named tuple: 3 4 4 bytes a sample.
    Pair = collections.namedtuple("Pair", "value mask")

    class Handing(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(4, 4))

        def forward(self, pair):
            return Pair(pair.value @ self.weight, pair.mask)

    class NotCalled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.left = Handing(), torch.nn.Linear(4, 5)
            self.read = torch.nn.Linear(4, 4)

        def forward(self, x):
            return torch.nn.functional.linear(self.first(Pair(x, None)).value, self.read.weight,
                                              self.read.bias)

    said = []
    export(NotCalled(), torch.randn(2, 3, 4), file, say=said.append)
    rows = list(csv.DictReader(file.open()))
    assert [(r["name"], int(r["parameters"]), int(r["boundary_bytes"])) for r in rows] == [
        ("first", 16 + 16 + 4, 3 * 4 * 4)], rows
    assert said[:4] == [
        "left.weight: 20 parameters that nothing uses in this forward, left out",
        "left.bias: 5 parameters that nothing uses in this forward, left out",
        "read.weight: 16 parameters of a module that is not called, counted with first",
        "read.bias: 4 parameters of a module that is not called, counted with first"], said

    # The same from the command, and a class measured whole; names with commas stay one cell.
    (pathlib.Path(folder) / "two_blocks.py").write_text(
        "import torch\n"
        "class Block(torch.nn.Sequential): pass\n"
        "def made():\n"
        "    block = lambda: Block(torch.nn.Linear(4, 4), torch.nn.Tanh())\n"
        "    net = torch.nn.Sequential(torch.nn.Embedding(9, 4))\n"
        "    net.add_module('a, \"b\"', block())\n"
        "    net.add_module('c', block())\n"
        "    return net\n")
    command = [sys.executable, script, "two_blocks:made", "tokens:2,3", "layers.csv"]
    done = subprocess.run([*command, "--whole", "Block"], cwd=folder, capture_output=True,
                          text=True, env=os.environ | {"PYTHONPATH": folder})
    assert done.returncode == 0 and done.stderr == "", done.stderr
    model = json.loads(
        subprocess.run([weir, "model", file, "--json"], check=True, capture_output=True).stdout
    )
    assert [layer["name"] for layer in model["layers"]] == ["0", 'a, "b"', "c"], model
    assert model["parameters"] == 36 + 2 * 20, model
    done = subprocess.run([*command, "--whole", "Blok"], cwd=folder, capture_output=True,
                          text=True, env=os.environ | {"PYTHONPATH": folder})
    assert done.stderr == "--whole Blok: the model has no module of that class\n", done.stderr

# Models as people have them, where their libraries are: each parameter once, tied or of no leaf.
def peers():
    tokens = torch.randint(100, (2, 16))
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    yield torch.nn.TransformerEncoder(layer, 2), torch.randn(2, 8, 32), 0
    try:
        import torchvision

        image = torch.randn(2, 3, 32, 32)
        yield torchvision.models.VisionTransformer(32, 8, 2, 4, 32, 64), image, 0
    except ImportError as missing:
        print(f"without {missing.name}")
    try:
        import transformers as t
    except ImportError as missing:
        print(f"without {missing.name}")
        return
    wide = {"vocab_size": 100, "hidden_size": 32, "intermediate_size": 64,
            "num_hidden_layers": 2, "num_attention_heads": 4}
    small = {"vocab_size": 100, "n_embd": 32, "n_layer": 2, "n_head": 4, "bos_token_id": 0,
             "eos_token_id": 0}
    yield t.GPT2LMHeadModel(t.GPT2Config(**small)), tokens, 1
    yield t.BertForMaskedLM(t.BertConfig(**wide)), tokens, 1
    yield t.LlamaForCausalLM(t.LlamaConfig(num_key_value_heads=2, **wide)), tokens, 0
    both = {"vocab_size": 100, "d_model": 32, "d_ff": 64, "d_kv": 8, "num_layers": 1,
            "num_heads": 4}
    yield t.T5ForConditionalGeneration(t.T5Config(**both)), tokens, 2  # tables of both, and a head


for model, example, tied in peers():
    with tempfile.TemporaryDirectory() as folder:
        file, said = pathlib.Path(folder) / "layers.csv", []
        export(model, example, file, say=said.append)
        rows = list(csv.DictReader(file.open()))
        counted = sum(int(r["parameters"]) for r in rows)
        assert counted == sum(p.numel() for p in model.parameters()), (type(model), counted)
        shares = [line for line in said if "shares weights" in line]
        assert len(shares) == tied, said
print("export_layers: parameters, bytes and columns as derived")
