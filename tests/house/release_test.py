#!/usr/bin/env python3
"""A release is one thing wherever it is named: the build, the citation, the consumer of the library
and the changes have one version and date. Changes stay short, and name every schema of the sources.
Usage: release_test.py SOURCE_DIR"""
# SPDX-License-Identifier: Apache-2.0
import pathlib
import re
import sys

LINES_MAX = 40  # of a release, and of what waits for the next one
FLOORS = ("plan", "traces", "costmodel", "sim", "exec", "tools")
SOURCES = {".hpp", ".cpp", ".cu", ".py"}


def parts_of(changes):
    """{heading: lines below it}, in the order of the file."""
    pieces = re.split(r"^## (.*)$", changes, flags=re.M)[1:]
    return {head: body.strip().splitlines() for head, body in zip(pieces[::2], pieces[1::2])}


def faults_of(changes, version, cited, consumed, schemas):
    """What is wrong with the changes of a tree of that version; `cited` is (version, date) of the
    citation, `consumed` the version that the consumer asks for, `schemas` {(name, version)}."""
    parts, faults = parts_of(changes), []
    heads = list(parts)
    if not heads or heads[0] != "Unreleased" or len(heads) < 2:
        return ["the first heading is 'Unreleased', the second the newest release"]
    newest = re.fullmatch(r"(\d+\.\d+\.\d+) \((\d{4}-\d\d-\d\d)\)", heads[1])
    if not newest:
        return [f"'{heads[1]}' is no 'VERSION (YYYY-MM-DD)'"]
    if newest[1] != version:
        faults.append(f"the newest release is {newest[1]}, CMakeLists.txt says {version}")
    if cited != newest.groups():
        faults.append(f"CITATION.cff says {cited}, the newest release is {newest.groups()}")
    if consumed != version.rpartition(".")[0]:
        faults.append(f"tests/package/consumer asks for {consumed}, not {version}")
    for head, lines in parts.items():
        if len(lines) > LINES_MAX:
            faults.append(f"'{head}' has {len(lines)} lines, at most {LINES_MAX}")
    told = set(re.findall(r"weir\.([a-z_]+)/(\d+)", "\n".join(parts["Unreleased"])))
    for number, names in re.findall(r"^- Version (\d+), `weir\.NAME/\d+`: ((?:.|\n  )*?)\.$",
                                    "\n".join(parts[heads[1]]), re.M):
        told |= {(name, number) for name in re.split(r",\s+", names)}
    faults += [f"weir.{name}/{number} is in no change and not among the formats of {version}"
               for name, number in sorted(schemas - told)]
    return faults


def checker_sees():
    """Each fault is found in changes that have only it."""
    right = ("# Changes\n\n## Unreleased\n\n- weir.plan/2.\n\n## 1.2.3 (2026-01-02)\n\n"
             "- Version 1, `weir.NAME/1`: plan,\n  trace.\n\n## 1.0.0\n\nA line.\n")
    known = ["1.2.3", ("1.2.3", "2026-01-02"), "1.2", {("plan", "2"), ("trace", "1")}]
    assert faults_of(right, *known) == []
    for place, wrong in enumerate(["1.2.4", ("1.2.3", "2026-01-03"), "1.1", {("trace", "2")}]):
        assert faults_of(right, *known[:place], wrong, *known[place + 1:]), wrong
    long = right.replace("- weir.plan/2.", "- weir.plan/2.\n" + "- A change.\n" * LINES_MAX)
    assert faults_of(long, *known) == ["'Unreleased' has 41 lines, at most 40"]
    assert faults_of(right.replace("(2026-01-02)", "(soon)"), *known)


checker_sees()
root = pathlib.Path(sys.argv[1])


def found(path, pattern):
    return re.search(pattern, (root / path).read_text(), re.M).group(1)


schemas = set()
for floor in FLOORS:
    for path in (root / floor).rglob("*"):
        if path.suffix in SOURCES and path.is_file():
            schemas |= set(re.findall(r"\bweir\.([a-z_]+)/(\d+)", path.read_text()))
assert len(schemas) > 30, schemas
faults = faults_of(
    (root / "CHANGELOG.md").read_text(),
    found("CMakeLists.txt", r"^project\(weir VERSION ([0-9.]+)"),
    (found("CITATION.cff", r"^version: (.*)$"), found("CITATION.cff", r"^date-released: (.*)$")),
    found("tests/package/consumer/CMakeLists.txt", r"find_package\(weir ([0-9.]+)"), schemas)
print("\n".join(faults) or f"release: one version, {len(schemas)} schemas told")
sys.exit(1 if faults else 0)
