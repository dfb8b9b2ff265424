#!/usr/bin/env python3
"""The tutorials run as they are written: each in an empty folder, with nothing of Weir but its
wheel, installed into an environment of its own. A tutorial that installs PyTorch gets the one of
build/peers (tools/test --long), and is left out where there is none. Prints what each took.
Usage: tutorials_test.py SOURCE_DIR BUILD_DIR"""
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import pages

source, build = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
if build != source / "build":
    print(f"tutorials: the wheel is made of {source / 'build'}, and this is {build}")
    sys.exit(77)



def pytorch():
    """Where PyTorch is, for the interpreter that the wheel is for; None: nowhere."""
    where = ("import pathlib, sys, torch\n"
             "print(*sys.version_info[:2], pathlib.Path(torch.__file__).parents[1])")
    version = subprocess.run(["/usr/bin/python3", "-c", "import sys; print(*sys.version_info[:2])"],
                             text=True, capture_output=True, check=True).stdout.strip()
    for python in ("/usr/bin/python3", build / "peers/bin/python"):
        if not pathlib.Path(python).exists():
            continue
        said = subprocess.run([python, "-c", where], text=True, capture_output=True)
        if said.returncode == 0 and said.stdout.startswith(version + " "):
            return said.stdout.strip()[len(version) + 1:]
    return None


faults = []
with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    made = subprocess.run([source / "tests/package/wheel", folder], text=True, capture_output=True)
    wheels = list(folder.glob("weir-*.whl"))
    if made.returncode == 0 and not wheels:
        print(f"tutorials: {made.stdout}")
        sys.exit(77)
    if made.returncode != 0:
        sys.exit(f"tutorials: {made.stdout}{made.stderr}")
    begun = time.time()
    environment = folder / "env"
    subprocess.run(["/usr/bin/python3", "-m", "venv", environment], check=True)
    subprocess.run([environment / "bin/pip", "install", "-q", "--disable-pip-version-check",
                    "--no-index", *wheels], check=True)
    print(f"pip install: {time.time() - begun:.1f} s")
    os.environ["PATH"] = f"{environment / 'bin'}:{os.environ['PATH']}"
    tutorials = sorted((source / "docs/tutorials").glob("*.md"))
    assert len(tutorials) >= 3, tutorials
    for tutorial in tutorials:
        needs_torch = re.search(r"^pip install .*\btorch\b", tutorial.read_text(), re.MULTILINE)
        os.environ.pop("PYTHONPATH", None)
        if needs_torch and not (torch := pytorch()):
            print(f"{tutorial.name}: left out, as PyTorch is not here")
            continue
        if needs_torch:
            os.environ["PYTHONPATH"] = torch
            # What installing PyTorch would put beside the interpreter.
            launcher = environment / "bin/torchrun"
            launcher.write_text(f'#!/bin/sh\nexec "{environment}/bin/python" '
                                '-m torch.distributed.run "$@"\n')
            launcher.chmod(0o755)
        found, times = pages.check(
            tutorial, "weir", environment / "share/weir/examples", long=True)
        faults += found
        assert len(times) >= 5, (tutorial, times)
        print(f"{tutorial.name}: {len(times)} commands, {sum(each for _, each in times):.1f} s")
print("\n".join(faults))
sys.exit(1 if faults else 0)
