#!/usr/bin/env python3
"""The README: one picture, at most 75 lines, and its examples, each block run as it is written, in
order, in one folder where `weir` is the command given and `tools` and `docs` are the repository's.
Usage: readme_test.py SOURCE_DIR WEIR"""
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

source, weir = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
text = (source / "README.md").read_text()
assert len(text.splitlines()) <= 75, len(text.splitlines())
assert len(re.findall(r"^!\[", text, re.M)) == 1
blocks = re.findall(r"^```sh\n(.*?)^```", text[text.index("## Three examples"):], re.M | re.S)
assert len(blocks) == 3, blocks

with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    for shared in ("tools", "docs"):
        (folder / shared).symlink_to(source / shared)
    (folder / "bin").mkdir()
    (folder / "bin/weir").symlink_to(weir)
    environment = os.environ | {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    for block in blocks:
        begun = time.time()
        ran = subprocess.run(["bash", "-euo", "pipefail", "-c", block], cwd=folder, text=True,
                             env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        print(f"{block.split()[1]}: {time.time() - begun:.1f} s")
        if ran.returncode != 0:
            sys.exit(f"exit code {ran.returncode} of\n{block}\n{ran.stdout}")
    for made in ("sweep.json", "front.svg", "loss.svg", "both.svg"):
        assert (folder / made).stat().st_size > 0, made
    # The run that went on knows the losses of the one before it.
    assert "before it was stopped" in (folder / "loss.svg").read_text()
