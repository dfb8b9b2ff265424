#!/usr/bin/env python3
"""Every source ends its lines by column 100 and carries the licence on a line of its own.
Usage: text_test.py SOURCE_DIR"""
# SPDX-License-Identifier: Apache-2.0
import pathlib
import sys

root = pathlib.Path(sys.argv[1])
TOPS = ("plan", "traces", "costmodel", "sim", "exec", "tools", "tests", "docs", "cmake", ".ci")
CODE = {".hpp": "//", ".cpp": "//", ".cu": "//", ".cuh": "//"}
SCRIPTS = {".py": "#", ".cmake": "#", ".sh": "#"}
LICENCE = "SPDX-License-Identifier: Apache-2.0"


def mark_of(path):
    """How a comment of this file begins; None where it is no source."""
    if path.name == "CMakeLists.txt":
        return "#"
    if "regressions" in path.parts:  # inputs of the fuzzer, some of which begin like scripts
        return None
    if path.suffix == "" and path.read_bytes()[:2] == b"#!":
        return "#"
    return (CODE | SCRIPTS).get(path.suffix)


faults = []
paths = [root / "CMakeLists.txt"] + [p for top in TOPS for p in sorted((root / top).rglob("*"))]
for path in paths:
    if not path.is_file() or "__pycache__" in path.parts or not (mark := mark_of(path)):
        continue
    name, lines = path.relative_to(root).as_posix(), path.read_text().splitlines()
    for number, line in enumerate(lines, 1):
        if len(line) > 100:
            faults.append(f"{name}:{number}: {len(line)} columns, at most 100")
    if f"{mark} {LICENCE}" not in lines[:40]:
        faults.append(f"{name}: no line '{mark} {LICENCE}' among the first")
print("\n".join(faults) or "text: lines and licences are in order")
sys.exit(1 if faults else 0)
