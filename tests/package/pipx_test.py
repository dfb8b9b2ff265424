#!/usr/bin/env python3
"""`pipx run weir`: the wheel, by a pipx of its own from Python's package index, in an environment
that is made for the one run. Skips where the index is out of reach.
Usage: pipx_test.py SOURCE_DIR BUILD_DIR"""
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import subprocess
import sys
import tempfile

PYTHON = "/usr/bin/python3"  # the one that the module was built for

source, build = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
if build != source / "build":
    print(f"pipx: the wheel is made of {source / 'build'}, and this is {build}")
    sys.exit(77)

with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    made = subprocess.run([source / "tests/package/wheel", folder], text=True, capture_output=True)
    wheels = list(folder.glob("weir-*.whl"))
    if made.returncode != 0:
        sys.exit(f"pipx: {made.stdout}{made.stderr}")
    subprocess.run([PYTHON, "-m", "venv", folder / "env"], check=True)
    got = subprocess.run([folder / "env/bin/pip", "install", "-q", "--disable-pip-version-check",
                          "pipx"], text=True, capture_output=True)
    if not wheels or got.returncode != 0:
        print("pipx: Python's package index is out of reach")
        sys.exit(77)
    run = [folder / "env/bin/pipx", "run", "--python", PYTHON, "--spec", wheels[0], "weir"]
    own = {**os.environ, "PIPX_HOME": str(folder / "home"), "PIPX_BIN_DIR": str(folder / "bin")}
    own.pop("PYTHONPATH", None)
    for arguments, shown in ((["--version"], "weir 0."),
                             (["schedule", "1f1b", "-K", "2", "-M", "4"], "0F0")):
        done = subprocess.run([*run, *arguments], text=True, capture_output=True, env=own,
                              cwd=folder)
        if done.returncode != 0 or shown not in done.stdout:
            sys.exit(f"pipx run weir {' '.join(arguments)}: {done.stdout}{done.stderr}")
    print("pipx: run twice")
