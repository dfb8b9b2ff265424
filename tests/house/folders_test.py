#!/usr/bin/env python3
"""No folder of sources is larger than a reader takes in: at most 40 files, those of rooms below it
not counted. Data (tools/examples, recorded machines, seeds) is counted by nobody. At the root of
the tree stands what is listed here, and nothing that a command wrote there.
Usage: folders_test.py SOURCE_DIR"""
# SPDX-License-Identifier: Apache-2.0
import collections
import pathlib
import subprocess
import sys

MOST = 40
FLOORS = ("plan", "traces", "costmodel", "sim", "exec", "tools", "tests")
SOURCES = {".hpp", ".cpp", ".cu", ".cuh", ".py"}
ROOT = set("""
  .ci .clang-format .clang-tidy .dockerignore .editorconfig .gitattributes .github .gitignore
  .pre-commit-config.yaml CHANGELOG.md CITATION.cff CMakeLists.txt CMakePresets.json
  CODE_OF_CONDUCT.md CONTRIBUTING.md Dockerfile LICENSE README.md SECURITY.md cmake docs notebooks
  pyproject.toml""".split()) | set(FLOORS)
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
# An archive of the sources has no list of what is tracked.
tracked = subprocess.run(["git", "-C", root, "ls-files"], capture_output=True, text=True)
if tracked.returncode == 0:
    strays = {path.split("/")[0] for path in tracked.stdout.splitlines()} - ROOT
    faults += [f"{name}: no part of the tree" for name in sorted(strays)]
print("\n".join(faults) or f"folders: at most {most} files ({largest}), {len(files)} folders")
sys.exit(1 if faults else 0)
