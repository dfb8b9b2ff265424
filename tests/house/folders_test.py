#!/usr/bin/env python3
"""No folder of sources is larger than a reader takes in: at most 40 files, those of rooms below it
not counted. Data (tools/examples, recorded machines, seeds) is counted by nobody.
Usage: folders_test.py SOURCE_DIR"""
# SPDX-License-Identifier: Apache-2.0
import collections
import pathlib
import sys

MOST = 40
FLOORS = ("plan", "traces", "costmodel", "sim", "exec", "tools", "tests")
SOURCES = {".hpp", ".cpp", ".cu", ".cuh", ".py"}
root = pathlib.Path(sys.argv[1])

files = collections.Counter(
    path.parent.relative_to(root).as_posix()
    for floor in FLOORS
    for path in (root / floor).rglob("*")
    if path.suffix in SOURCES
)
largest, most = files.most_common(1)[0]
faults = [f"{folder}: {count} files, at most {MOST}" for folder, count in files.items()
          if count > MOST]
print("\n".join(faults) or f"folders: at most {most} files ({largest}), {len(files)} folders")
sys.exit(1 if faults else 0)
