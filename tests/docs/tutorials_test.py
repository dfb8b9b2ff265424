#!/usr/bin/env python3
"""The tutorials run as they are written: each in an empty folder, with nothing of Weir but its
wheel, installed into an environment of its own. Prints what each took.
Usage: tutorials_test.py SOURCE_DIR BUILD_DIR"""
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import pages

source, build = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
if build != source / "build":
    print(f"tutorials: the wheel is made of {source / 'build'}, and this is {build}")
    sys.exit(77)

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
    os.environ.pop("PYTHONPATH", None)
    tutorials = sorted((source / "docs/tutorials").glob("*.md"))
    assert len(tutorials) >= 3, tutorials
    for tutorial in tutorials:
        found, times = pages.check(
            tutorial, "weir", environment / "share/weir/examples", long=True)
        faults += found
        assert len(times) >= 5, (tutorial, times)
        print(f"{tutorial.name}: {len(times)} commands, {sum(each for _, each in times):.1f} s")
print("\n".join(faults))
sys.exit(1 if faults else 0)
