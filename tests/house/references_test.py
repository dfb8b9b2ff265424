#!/usr/bin/env python3
"""Holds what comments and documents refer to: files that are named exist, sections that are cited
exist, links resolve."""
# SPDX-License-Identifier: Apache-2.0
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
TOPS = (
    "plan",
    "traces",
    "costmodel",
    "sim",
    "exec",
    "tools",
    "tests",
    "docs",
    "notebooks",
    "cmake",
)
CODE = {".hpp", ".cpp", ".cu", ".cuh"}
SCRIPTS = {".py", ".cmake", ".sh"}
WHOLE = {".md", ".yml", ".yaml"}  # read from end to end, not their comments alone
ALONE = (
    "README.md",
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CMakeLists.txt",
    ".pre-commit-config.yaml",
)
# A path: a top folder and more, as in plan/model/split or tests/house. What follows a $, / or . is
# not ours.
PATH = re.compile(r"(?<![\w./$}-])((?:" + "|".join(TOPS) + r")(?:/[\w.-]+)+)")
CITED = re.compile(r"docs/(\w+)\.md(?: (\d+(?:\.\d+)?)(?:(?:,| and) (\d+(?:\.\d+)?))?)?")
faults = []


def exists(word):
    """A file or folder, with or without its ending: plan/model/split is split.hpp and split.cpp."""
    word = word.rstrip(".-")
    at = root / word
    return at.exists() or any(at.parent.glob(at.name + ".*"))


def sections(document):
    return set(re.findall(r"^#+ (\d+(?:\.\d+)?)\.? ", document.read_text(), re.M))


def comments(path, text):
    """(line number, words) of what is for readers: comments of code, all of documents and
    scripts."""
    for number, line in enumerate(text.splitlines(), 1):
        if path.suffix in CODE:
            comment = re.search(r"(?<!:)//(.*)", line)  # not that of an address
            line = comment[1] if comment else ""
        elif path.suffix in SCRIPTS or path.name == "CMakeLists.txt":
            line = line[line.index("#"):] if "#" in line else ""
        yield number, line


def anchor(heading):
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def check_cited(name, words):
    for document, *cited in CITED.findall(words):
        file = root / "docs" / f"{document}.md"
        if not file.exists():
            faults.append(f"{name}: docs/{document}.md does not exist")
            continue
        for section in filter(None, cited):
            if section not in sections(file):
                faults.append(f"{name}: docs/{document}.md has no section {section}")


def check_links(path, name, number, line):
    for words, target in re.findall(r"\[([^\]]*)\]\(([^)]+)\)(?! x)", line):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, fragment = target.partition("#")
        to = path.parent / file if file else path
        if not to.exists():
            faults.append(f"{name}:{number}: the link {target} leads nowhere")
        elif fragment and fragment not in {
            anchor(h) for h in re.findall(r"^#+ (.*)", to.read_text(), re.M)
        }:
            faults.append(f"{name}:{number}: {target} has no such heading")
    for file, section in re.findall(r"\[\w+\.md\]\((\w+\.md)\) (\d+(?:\.\d+)?)", line):
        if section not in sections(path.parent / file):
            faults.append(f"{name}:{number}: {file} has no section {section}")


def files():
    for top in (*TOPS, ".github", *ALONE):
        for path in sorted((root / top).rglob("*")) if (root / top).is_dir() else [root / top]:
            if path.suffix in CODE | SCRIPTS | WHOLE or path.name == "CMakeLists.txt":
                yield path


for path in files():
    name, text = path.relative_to(root).as_posix(), path.read_text()
    lines = list(comments(path, text))
    check_cited(name, " ".join(re.sub(r"^\s*//", "", words).strip() for _, words in lines))
    for number, words in lines:
        if path.suffix == ".md":
            check_links(path, name, number, words)
        for word in PATH.findall(words):
            if not exists(word):
                faults.append(f"{name}:{number}: {word} does not exist")
# The map names the rooms that there are, and no others.
text = (root / "docs/design.md").read_text()
for floor in ("plan", "traces", "costmodel", "sim", "exec", "tools"):
    row = re.findall(rf"^\| `{floor}/` \|(.*)$", text, re.M)
    rooms = {path.name for path in (root / floor).iterdir()
             if path.is_dir() and any(inner.is_file() for inner in path.rglob("*"))}
    named = set(re.findall(r"`([\w-]+)`", " ".join(row)))
    for room in sorted(rooms - named):
        faults.append(f"docs/design.md: the map does not name {floor}/{room}")
    for room in sorted(named - rooms):
        faults.append(f"docs/design.md: {floor}/{room}, named in the map, does not exist")
if faults:
    sys.exit("\n".join(faults))
