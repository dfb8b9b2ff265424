#!/usr/bin/env python3
"""What tools/quickstart compiles first tunes, and is at most two thirds of what the whole command
is: neither readers of other tools' jobs nor published numbers nor the served page are of it.
Usage: quickstart_test.py SOURCE_DIR BUILD_DIR"""
# SPDX-License-Identifier: Apache-2.0
import json
import pathlib
import re
import subprocess
import sys
import tempfile

source, build = map(pathlib.Path, sys.argv[1:3])
TINY = {"model_type": "gpt2", "n_embd": 16, "n_head": 2, "n_layer": 2, "vocab_size": 32,
        "n_positions": 8}
LEFT_OUT = {"weir_jobs", "weir_reproduce", "weir_app", "weir_command", "weir_serve"}


def objects(target):
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
# The script's own commands, but for installing, and on a smaller model.
script = (source / "tools/quickstart").read_text()
assert "--target weir_tune\n" in script and "build/bin/weir_tune tune " in script
assert script.rstrip().endswith("--target weir"), script
subprocess.run(["cmake", "--build", build, "--target", "weir_tune"], check=True,
               stdout=subprocess.DEVNULL)
with tempfile.TemporaryDirectory() as folder:
    (pathlib.Path(folder) / "tiny.json").write_text(json.dumps(TINY))
    subprocess.run([(build / "bin/weir_tune").resolve(), "-q", "tune", "tiny.json", "--plans", "1",
                    "--rounds", "1", "--steps", "1", "-o", "out"], cwd=folder, check=True,
                   stdout=subprocess.DEVNULL)
    page = (pathlib.Path(folder) / "out/report.html").read_text()
    assert "<dd>weir" in page and " tune tiny.json" in page, page[-1500:]
print(f"quickstart: {len(first)} units of {len(whole)} before the first report")
