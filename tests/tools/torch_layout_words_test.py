#!/usr/bin/env python3
"""What `weir export --to dtensor` writes, without PyTorch: every function that a network may apply
has one there, no two weights share a name, and the script compiles.
torch_layout_words_test.py SOURCES WEIR"""
# SPDX-License-Identifier: Apache-2.0
import ast
import json
import pathlib
import py_compile
import re
import subprocess
import sys
import tempfile

SOURCES, WEIR = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()

table = (SOURCES / "plan/layout/network_text.cpp").read_text()
words = set(re.findall(r'\{"(\w+)", Act::apply,', table))
assert {"gelu", "tanh"} <= words, words

# Layers whose names differ in what a parameter's name cannot have, and every function.
tensors, operations, before = ["x[rows]"], [], "x"
for number, word in enumerate(sorted(words)):
    tensors.append(f"t{number}[rows]")
    operations.append(f"t{number} = {word}({before})")
    before = f"t{number}"
LAYERS = [{"name": "all", "tensors": tensors, "operations": operations}]
for name in ("b.1", "b_1", "0:b_1"):
    LAYERS.append({"name": name, "tensors": ["x[rows]", "weight w[rows]", "y[rows]"],
                   "operations": ["y = add(x w)"]})

with tempfile.TemporaryDirectory() as folder:
    file, out = pathlib.Path(folder) / "small.json", pathlib.Path(folder) / "out"
    file.write_text(json.dumps(
        {"schema": "weir.layout/1", "name": "small", "dimensions": [{"name": "rows", "size": 4}],
         "layers": LAYERS, "layouts": [{"name": "two", "mesh": [{"name": "d", "size": 2}],
                                        "rules": "rows:d"}]}))
    subprocess.run([WEIR, "-q", "export", file, "--to", "dtensor", "-o", out], check=True,
                   capture_output=True)
    script = out / "dtensor.py"
    py_compile.compile(str(script), cfile=str(out / "compiled"), doraise=True)
    text = script.read_text()

# The parts of the script that need no PyTorch.
parts, functions = {}, None
for node in ast.parse(text).body:
    if isinstance(node, ast.Assign) and node.targets[0].id == "LAYERS":
        parts["LAYERS"] = ast.literal_eval(node.value)
    if isinstance(node, ast.Assign) and node.targets[0].id == "FUNCTIONS":
        functions = {key.value for key in node.value.keys}
    if isinstance(node, ast.FunctionDef) and node.name in ("key_of", "copies"):
        exec(compile(ast.Module([node], []), "dtensor.py", "exec"), parts)
assert functions == words, (functions, words)
keys = [parts["key_of"](layer, copy, "w") for layer, copy in parts["copies"]()]
assert len(keys) == len(set(keys)) == 4 and not any("." in key for key in keys), keys
print("torch_layout_words: all functions, names of their own, a script that compiles")
