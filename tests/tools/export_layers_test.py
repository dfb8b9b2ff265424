#!/usr/bin/env python3
"""export_layers.py on a network small enough to follow by hand, read back by `weir model`. Skips
without PyTorch. Usage: export_layers_test.py SOURCE_DIR WEIR."""
# SPDX-License-Identifier: Apache-2.0
import csv
import json
import pathlib
import subprocess
import sys
import tempfile

source, weir = pathlib.Path(sys.argv[1]), sys.argv[2]
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
print("export_layers: parameters, bytes and columns as derived")
