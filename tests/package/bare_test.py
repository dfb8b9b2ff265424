#!/usr/bin/env python3
"""The wheel of tools/wheel, in a Debian 12 that holds Python and nothing else: no compiler, none of
the libraries that this tree is built with. The command plans, forecasts and trains there, and the
module does what it does here. Skips where no such system can be made: without root, debootstrap or
the archive. Usage: bare_test.py SOURCE_DIR"""
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ARCHIVE = "http://deb.debian.org/debian"
PROGRAM = """
import weir
plan = weir.load_plan("plan.json")
forecast, _ = weir.simulate(plan)
assert forecast["step_time_s"] > 0, forecast
print("module", weir.__version__)
"""

source = pathlib.Path(sys.argv[1]).resolve()


def skip(why):
    print(f"bare: {why}")
    sys.exit(77)


def whole(line, **options):
    done = subprocess.run(line, text=True, capture_output=True, **options)
    if done.returncode != 0:
        sys.exit(f"bare: {' '.join(map(str, line))}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


if os.geteuid() != 0 or shutil.which("debootstrap") is None:
    skip("a bare system is made by root and debootstrap")

with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    root = folder / "root"
    made = subprocess.run(["debootstrap", "--variant=minbase", "--include=python3,python3-venv",
                           "bookworm", root, ARCHIVE], text=True, capture_output=True)
    if made.returncode != 0:
        skip("Debian's archive is out of reach")
    whole([source / "tools/wheel", folder / "wheels"])
    wheels = list((folder / "wheels").glob("weir-*manylinux*.whl"))
    assert len(wheels) == 1, wheels
    shutil.copy(wheels[0], root)

    def within(*line):
        # With /proc, by which the loader finds the folder of a program ($ORIGIN).
        return whole(["unshare", "-m", "sh", "-c",
                      'mount -t proc proc "$0/proc" && exec chroot "$0" /usr/bin/env -i "$@"', root,
                      "PATH=/env/bin:/usr/bin:/bin", "HOME=/root", *line])

    lacks = subprocess.run(["chroot", root, "sh", "-c", "command -v cc g++ gcc cmake"],
                           text=True, capture_output=True)
    assert lacks.stdout == "", f"a compiler in a bare system: {lacks.stdout}"
    within("python3", "-m", "venv", "/env")
    within("pip", "install", "-q", "--no-index", f"/{wheels[0].name}")
    said = within("weir", "--version")
    assert said.startswith("weir 0."), said
    model = "/env/share/weir/examples/models/gpt2-mini.json"
    within("sh", "-c", f"cd /root && weir -q plan {model} -K 2 -M 4 -o plan.json")
    said = within("sh", "-c", "cd /root && weir -q run plan.json --steps 3 --json")
    assert '"parameters_sha256"' in said, said
    (root / "root/program.py").write_text(PROGRAM)
    print(within("sh", "-c", "cd /root && python3 program.py").strip())
    print(f"bare: {wheels[0].name}, {wheels[0].stat().st_size / 2**20:.0f} MiB, runs")
