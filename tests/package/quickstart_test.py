#!/usr/bin/env python3
"""What tools/quickstart compiles first tunes, and is at most two thirds of what the whole command
is: neither readers of other tools' jobs nor published numbers nor the served page are of it. The
script builds the rest also where tuning failed, and then fails as it did.
Usage: quickstart_test.py SOURCE_DIR BUILD_DIR"""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

source, build = (pathlib.Path(given).absolute() for given in sys.argv[1:3])
TINY = {"model_type": "gpt2", "n_embd": 16, "n_head": 2, "n_layer": 2, "vocab_size": 32,
        "n_positions": 8}
LEFT_OUT = {"weir_jobs", "weir_reproduce", "weir_app", "weir_command", "weir_serve"}


def objects(target, build=build):
    """The units that are compiled for it, each with the library that it is of."""
    listed = subprocess.run(["ninja", "-C", build, "-t", "commands", target], check=True,
                            capture_output=True, text=True).stdout
    return set(re.findall(r" -o CMakeFiles/(\w+)\.dir/(\S+\.o) -c ", listed))


if not (build / "build.ninja").exists():
    print("skipped: built by another generator than Ninja")
    sys.exit(77)
first, whole = objects("weir_tune"), objects("weir")
libraries = {library for library, _ in first}
assert len(whole) > 20 and LEFT_OUT & {library for library, _ in whole}, whole
assert not libraries & LEFT_OUT, libraries & LEFT_OUT
assert 3 * len(first) < 2 * len(whole), (len(first), len(whole))


def script_where_tune_ends_with(code, folder):
    """The script itself, in a tree where CMake writes down what it is asked, and tuning ends with
    this code: its own, and what was built."""
    folder = pathlib.Path(folder)
    for name, text in (("tools/install", "true"), ("bin/cmake", 'echo "$@" >> built'),
                       ("build/bin/weir_tune", f"exit {code}")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    shutil.copy(source / "tools/quickstart", folder / "tools")
    done = subprocess.run([folder / "tools/quickstart"], capture_output=True, text=True,
                          env={**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}"})
    targets = re.findall(r"--target (\w+)", (folder / "built").read_text())
    return done.returncode, targets, "report.html is there" in done.stdout


for code, built in ((0, ["weir_tune", "weir"]), (4, ["weir_tune", "weir"]), (130, ["weir_tune"])):
    with tempfile.TemporaryDirectory() as folder:
        ended = script_where_tune_ends_with(code, folder)
        assert ended == (code, built, code == 0), (code, ended)
with tempfile.TemporaryDirectory() as folder:
    # A clone may lie anywhere: where its path reads as a pattern the units are the same.
    odd = pathlib.Path(folder) / "new+1"
    odd.symlink_to(source)
    subprocess.run(["cmake", "-S", odd, "-B", f"{folder}/build", "-G", "Ninja", "-DWEIR_TESTS=OFF",
                    "-DCMAKE_UNITY_BUILD=ON", "-DWEIR_PYTHON=OFF", "-DWEIR_BENCHMARKS=OFF"],
                   check=True, capture_output=True)
    assert objects("weir_tune", f"{folder}/build") == first
    (pathlib.Path(folder) / "tiny.json").write_text(json.dumps(TINY))
    subprocess.run([build / "bin/weir_tune", "-q", "tune", "tiny.json", "--plans", "1",
                    "--rounds", "1", "--steps", "1", "-o", "out"], cwd=folder, check=True,
                   stdout=subprocess.DEVNULL)
    page = (pathlib.Path(folder) / "out/report.html").read_text()
    assert "<dd>weir" in page and " tune tiny.json" in page, page[-1500:]
print(f"quickstart: {len(first)} units of {len(whole)} before the first report")
