#!/usr/bin/env python3
"""The wheel of tools/wheel, in systems that hold no compiler and none of the libraries that this
tree is built with: in a Debian 12 that has Python besides, the command plans, forecasts and trains,
and the module does what it does here. Made on Debian 12 and x86-64 the wheel is for glibc 2.28 and
later, and its command also trains in a bare Debian 11, whose Python is another than the module's.
Wherever it trains, losses are those of the build. Skips where no such system can be made: without
root, debootstrap or the archive. Usage: bare_test.py SOURCE_DIR WEIR"""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

ARCHIVE = "http://deb.debian.org/debian"
GLIBC = 28  # 2.28
# Relative: another build of oneDNN may add in another order.
LOSS_TOLERANCE = 1e-6
PROGRAM = """
import weir
plan = weir.load_plan("plan.json")
forecast, _ = weir.simulate(plan)
assert forecast["step_time_s"] > 0, forecast
print("module", weir.__version__)
"""

source, weir = (pathlib.Path(given).resolve() for given in sys.argv[1:3])


def skip(why):
    print(f"bare: {why}")
    sys.exit(77)


def whole(line, **options):
    done = subprocess.run(line, text=True, capture_output=True, **options)
    if done.returncode != 0:
        sys.exit(f"bare: {' '.join(map(str, line))}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def make_root(root, release, *packages):
    made = subprocess.run(["debootstrap", "--variant=minbase", *packages, release, root, ARCHIVE],
                          text=True, capture_output=True)
    if made.returncode != 0:
        skip(f"Debian's archive, or {release} in it, is out of reach")
    lacks = subprocess.run(["chroot", root, "sh", "-c", "command -v cc g++ gcc cmake"],
                           text=True, capture_output=True)
    assert lacks.stdout == "", f"a compiler in a bare system: {lacks.stdout}"


def within(root, line):
    # With /proc, by which the loader finds the folder of a program ($ORIGIN).
    return whole(["unshare", "-m", "sh", "-c",
                  'mount -t proc proc "$0/proc" && exec chroot "$0" /usr/bin/env -i "$@"', root,
                  "PATH=/env/bin:/usr/bin:/bin", "HOME=/root", "sh", "-c", f"cd /root && {line}"])


def trains(root, command, model):
    """The command says its version, plans, and trains as the build does."""
    said = within(root, f"{command} --version")
    assert said.startswith("weir 0."), said
    within(root, f"{command} -q plan {model} -K 2 -M 4 -o plan.json")
    line = "run plan.json --steps 3 --json"
    there = json.loads(within(root, f"{command} -q {line}"))
    here = json.loads(whole([weir, "-q", *line.split()], cwd=root / "root"))
    losses = [[step["loss"] for step in run["steps"]] for run in (there, here)]
    assert len(losses[0]) == 3 and losses[0][2] < losses[0][0], losses
    for one, other in zip(*losses):
        assert abs(one - other) <= LOSS_TOLERANCE * other, losses
    same = there["parameters_sha256"] == here["parameters_sha256"]
    return f"losses of the build, parameters {'the same' if same else 'others'} in their bits"


if os.geteuid() != 0 or shutil.which("debootstrap") is None:
    skip("a bare system is made by root and debootstrap")

with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    root, older = folder / "root", folder / "older"
    make_root(root, "bookworm", "--include=python3,python3-venv")
    whole([source / "tools/wheel", folder / "wheels"])
    wheels = list((folder / "wheels").glob("weir-*manylinux*.whl"))
    assert len(wheels) == 1, wheels
    shutil.copy(wheels[0], root)

    within(root, "python3 -m venv /env")
    within(root, f"pip install -q --no-index /{wheels[0].name}")
    model = "/env/share/weir/examples/models/gpt2-mini.json"
    print("bare: Debian 12:", trains(root, "weir", model))
    (root / "root/program.py").write_text(PROGRAM)
    print(within(root, "python3 program.py").strip())

    here = platform.freedesktop_os_release()
    if (here["ID"], here.get("VERSION_ID"), platform.machine()) == ("debian", "12", "x86_64"):
        least = min(map(int, re.findall(r"manylinux_2_(\d+)_", wheels[0].name)))
        assert least <= GLIBC, wheels[0].name
        make_root(older, "bullseye")
        with zipfile.ZipFile(wheels[0]) as wheel:
            wheel.extractall(older / "wheel")
        (command,) = (older / "wheel").glob("*.scripts/weir")
        (model,) = (older / "wheel").glob("*.data/data/share/weir/examples/models/gpt2-mini.json")
        command.chmod(0o755)
        print("bare: Debian 11:", trains(older, *(f"/{path.relative_to(older)}"
                                                  for path in (command, model))))
    print(f"bare: {wheels[0].name}, {wheels[0].stat().st_size / 2**20:.0f} MiB, runs")
