"""Holds docs/formats.md to what the command writes and takes.

    formats_test.py SOURCE_FOLDER WEIR_COMMAND

Reads the document's tables (a section a schema, or a shared object), lets the command write every
schema once or more, and holds each object to its table: every key of it is documented, every key
that "always" is there is there, and values have the documented types. Keys that no command here
writes (a GPU's, say) must at least be spelt in the sources. Examples in the document are given to
the command, which refuses unknown keys. Every schema of the sources has its section.
"""
# SPDX-License-Identifier: Apache-2.0
import json
import re
import sys
import tempfile
from pathlib import Path

from documented import Checker, fail, failures, read_document
from written import SOURCES, outputs, weir

FLOORS = ("plan", "traces", "costmodel", "sim", "exec", "tools")
INPUTS = {"weir.cluster/1", "weir.cnn/1", "weir.layers/1", "weir.layout/1"}


def check_examples(folder, checker, examples):
    """Each is documented, and taken by the command, which refuses unknown keys."""
    for schema, texts in examples.items():
        for number, text in enumerate(texts):
            checker.document(json.loads(text))
            file = folder / f"example-{number}.json"
            file.write_text(text)
            if schema == "weir.layout/1":
                weir(folder, "model", "--layout", file)
            elif schema == "weir.cluster/1":
                weir(folder, "plan", "tiny.json", "-K", 2, "-M", 2, "--cluster", file)
            else:
                weir(folder, "model", file)
    for schema in sorted(INPUTS - set(examples)):
        fail(f"{schema} has no example")


def check_inputs_shipped(checker):
    for file in sorted((SOURCES / "tools/examples").rglob("*.json")):
        content = json.loads(file.read_text())
        if "schema" in content:
            checker.document(content)


def spelt_in_sources():
    words = set()
    for floor in FLOORS:
        for file in (SOURCES / floor).rglob("*.?pp"):
            words |= set(re.findall(r'\\?"([A-Za-z0-9_/.]+)\\?"', file.read_text()))
    return words


def check_csv_headers(folder, headers):
    for file in ("reproduced.csv", "judged.csv", *sorted(str(p) for p in folder.glob("drawn*.csv")),
                 *sorted(str(p) for p in folder.glob("judged/evaluation*.csv"))):
        first = (folder / file).read_text().splitlines()[0]
        if first not in headers:
            fail(f"{Path(file).name}: the header {first} is not documented")
    for header in headers:  # those that are read: the document's first line is taken as it stands
        rows = {"name,kind": "a,block,10,1,1,1,64,64,2", "stage,f_ms": None}
        for start, row in rows.items():
            if not header.startswith(start):
                continue
            file = folder / "read.csv"
            if row:
                file.write_text(f"{header}\n{row}\n")
                weir(folder, "model", file)
            else:
                file.write_text(f"{header}\n0,1,1,1,2,1,0,0\n1,1,1,1,2,1,0.1,0.1\n")
                weir(folder, "schedule", "1f1b", "-K", 2, "-M", 2, "--times", file)


def main():
    document = (SOURCES / "docs/formats.md").read_text()
    tables, examples, headers = read_document(document)
    checker = Checker(tables)
    words = spelt_in_sources()
    schemas = {word for word in words if re.fullmatch(r"weir\.[a-z_]+/\d+", word)}
    for schema in sorted(schemas - set(tables)):
        fail(f"{schema} is in the sources and has no section")
    for schema in sorted({name for name in tables if name.startswith("weir.")} - schemas):
        fail(f"{schema} has a section and is not in the sources")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for output in outputs(folder):
            checker.document(output)
        check_examples(folder, checker, examples)
        check_csv_headers(folder, headers)
    check_inputs_shipped(checker)
    unseen = 0
    for section, table in tables.items():
        for path, row in table.items():
            if row.seen or row.kind == "any":
                continue
            unseen += 1
            key = re.split(r"[.\[\]]+", path)[-1]
            if row.when == "always" and not any(
                p.when != "always"
                for q, p in table.items()
                if path.startswith(q + ".") or path.startswith(q + "[]")
            ):
                fail(f"{section}: {path} is documented as always there and was never written")
            elif key not in words:
                fail(f"{section}: {path} is documented, was never written, and no source spells it")
    rows = sum(len(table) for table in tables.values())
    print(f"{len(schemas)} schemas, {rows} keys, {rows - unseen} of them seen")
    if failures:
        sys.exit("\n".join(failures))


main()
