#!/usr/bin/env python3
"""Holds docs/formats.md and the fuzzer's dictionary to the formats that are described key by key in
the sources (plan/format): the table of each, and each key as a word.

    tables_test.py SOURCE_DIR FORMAT_TABLES [--write]

FORMAT_TABLES is the program of tests/house/tables.cpp. With --write both are made what they should
be: a section is there with its heading and its prose, and gets its table.
"""
# SPDX-License-Identifier: Apache-2.0
import json
import pathlib
import re
import subprocess
import sys

root, program, write = pathlib.Path(sys.argv[1]), sys.argv[2], "--write" in sys.argv[3:]
HEAD = "| key | type | unit | when | meaning |\n|---|---|---|---|---|\n"
KEYS = "# Keys of the formats that are described, by tests/house/tables_test.py.\n"


def row(key, kind, cells):
    """`cells`: unit, when and meaning, or the meaning of what is always there without a unit."""
    cells = [cell.strip() for cell in cells.split("|")]
    unit, when, meaning = cells if len(cells) == 3 else ("", "always", *cells)
    return "|" + "".join(f" {cell} |" if cell else " |"
                         for cell in (f"`{key}`", kind, unit, when, meaning)) + "\n"


def with_tables(document, tables):
    for title, rows in tables.items():
        table = HEAD + "".join(row(*cells) for cells in rows)
        section = re.compile(rf"(^##+ {re.escape(title)}\n(?:[^|#\n].*\n|\n)*)(?:\|.*\n)*", re.M)
        document, found = section.subn(lambda match: match[1] + table, document, count=1)
        if not found:
            sys.exit(f"docs/formats.md: no section {title}")
    return document


def with_keys(dictionary, tables):
    words = {re.split(r"[.\[\]]+", key)[-1] for rows in tables.values() for key, *_ in rows} - {"*"}
    own = dictionary.split(KEYS)[0]
    lines = [f'"\\"{word}\\""\n' for word in sorted(words)]
    return own + KEYS + "".join(line for line in lines if line not in own)


tables = json.loads(subprocess.run([program], capture_output=True, text=True, check=True).stdout)
faults = []
for name, wanted in (("docs/formats.md", with_tables), ("tests/fuzz/dictionary.txt", with_keys)):
    file = root / name
    text = file.read_text()
    should = wanted(text, tables)
    if write:
        file.write_text(should)
    elif text != should:
        there = set(text.splitlines())
        new = (line for line in should.splitlines() if line not in there)
        first = next(new, "a line too many")
        faults.append(f"{name} is not what the sources describe ({first}): "
                      f"run {' '.join(sys.argv)} --write")
rows = sum(len(table) for table in tables.values())
print("\n".join(faults) or f"tables: {len(tables)} sections, {rows} keys")
sys.exit(1 if faults else 0)
