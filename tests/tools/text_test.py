#!/usr/bin/env python3
"""Names may hold anything. Whatever a file calls its layers, its model and its note, what is
written of them is still what it should be: a terminal's text, JSON, SVG, HTML, Python, shell; and
texts that are not UTF-8 are refused with file and line. Usage: text_test.py SOURCE_DIR WEIR"""
# SPDX-License-Identifier: Apache-2.0
import ast
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

weir = sys.argv[2]
NAMES = ['"""', "a\nb", "\\", "\\\"", "$(touch owned)", "`touch owned`", "</script><b>x", "<!--",
         "&amp;", "\x1b[31mred", "bell\x07", "nul\0", "del\x7f", "c1\x9b31m", "'", "{}", "%s",
         "@NAME@", "é漢字", "-o", "#{x}", "]]>", "a;b|c&d"]
faults = []


def check(what, holds, more=""):
    if not holds:
        faults.append(f"{what}: {more}")


def run(*words):
    done = subprocess.run([weir, "-q", *words], capture_output=True)
    check(" ".join(words), done.returncode in (0, 2, 3, 4), f"ended with {done.returncode}")
    for text in (done.stdout, done.stderr):
        try:
            shown = text.decode()
        except UnicodeDecodeError:
            faults.append(f"{words}: wrote what is not UTF-8")
            continue
        # A terminal obeys these.
        check(" ".join(words), not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", shown), repr(shown))
    return done


def layers(name):
    layer = {"kind": "timed", "name": name, "forward_s": 1e-3, "backward_input_s": 1e-3,
             "backward_weight_s": 1e-3, "parameters": 4, "activation_bytes": 64,
             "boundary_bytes": 64, "count": 2}
    return {"schema": "weir.layers/1", "name": name, "layers": [layer, layer]}


def written(folder):
    """Every file that the commands wrote is of its kind."""
    for path in sorted(pathlib.Path(folder).rglob("*")):
        if not path.is_file():
            continue
        text = path.read_bytes()
        if path.suffix in (".pdf", ".pftrace"):
            continue
        text = text.decode()
        try:
            if path.suffix == ".json":
                json.loads(text)
            elif path.suffix == ".svg":
                xml.etree.ElementTree.fromstring(text)
            elif path.suffix == ".py":
                ast.parse(text)
            elif path.suffix == ".sh" and shutil.which("bash"):
                subprocess.run(["bash", "-n", str(path)], check=True, capture_output=True)
            elif path.suffix == ".html":
                check(path, "<b>x" not in text and "<!--" not in text, "a name is markup")
                check(path, not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", text), "controls")
        except (ValueError, SyntaxError, subprocess.CalledProcessError,
                xml.etree.ElementTree.ParseError) as error:
            faults.append(f"{path}: {error}")


def named(name):
    shutil.rmtree("out", ignore_errors=True)
    pathlib.Path("layers.json").write_text(json.dumps(layers(name)))
    pathlib.Path("gpt.json").write_text(json.dumps(
        {"model_type": "gpt2", "n_embd": 16, "n_head": 2, "n_layer": 2, "vocab_size": 32,
         "n_positions": 8, "_name_or_path": name}))
    note = name.replace("\0", "")  # an argument ends at a NUL
    for model in ("layers.json", "gpt.json"):
        run("model", model)
        made = run("plan", model, "-K", "2", "-M", "2", f"--note={note}", "-o", "out/plan.json")
        if made.returncode != 0:
            continue
        run("plan", model, "-K", "2", "-M", "2", f"--note={note}")
        run("simulate", "out/plan.json", "-o", "out", "--svg", "out/plan.svg", "--memory")
        run("compare", "out/plan.json", "out/plan.json")
        run("sweep", model, "-K", "1,2", "-M", "2", "--report", "out/report.html", "--svg",
            "out/sweep.svg", "--baseline", "out/plan.json")
        for tool in ("torch", "torchtitan", "megatron", "deepspeed"):
            run("export", "out/plan.json", "--to", tool, "-o", f"out/{tool}")
    # The words of the command line, and of what is not there.
    for line in (["model", note], ["plan", "gpt.json", "--schedule", note], [note],
                 ["schedule", "1f1b", f"--{note}"], ["simulate", "none" + note]):
        if note:
            run(*line)
    written("out")


def foreign():
    """Latin-1 in every kind of text."""
    broken = b'line one\n{"name": "caf\xe9"}\n'
    for name, line in (("m.json", ["model", "m.json"]), ("l.csv", ["model", "l.csv"]),
                       ("s.csv", ["schedule", "s.csv"]), ("p.json", ["simulate", "p.json"]),
                       ("n.log", ["calibrate", "--nccl", "n.log", "--cluster", "dgx-a100"]),
                       ("j.sh", ["plan", "j.sh", "--from", "megatron", "-o", "j.json"])):
        pathlib.Path(name).write_bytes(broken)
        done = run(*line)
        check(name, done.returncode == 3 and f"{name}: line 2: is not UTF-8".encode()
              in done.stderr, done.stderr)
    pathlib.Path("z.json").write_bytes(gzip.compress(b"{}"))
    done = run("simulate", "z.json")
    check("gzip", done.returncode == 3 and b"z.json: is compressed by gzip, expected text"
          in done.stderr, done.stderr)
    check("an argument", run("model", b"caf\xe9".decode(errors="surrogateescape")).returncode == 2)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    for each in NAMES:
        named(each)
    foreign()
    check("a name", not pathlib.Path("owned").exists(), "was run")

print("\n".join(faults) or f"text: {len(NAMES)} names in every kind of output")
sys.exit(1 if faults else 0)
