#!/usr/bin/env python3
"""The manual pages hold every option that --help has, in every command, with what --help says of
its value, and groff reads them without a warning, where it is here.
Usage: manual_test.py SOURCE_DIR WEIR"""
# SPDX-License-Identifier: Apache-2.0
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

weir = pathlib.Path(sys.argv[2]).resolve()


def run(*words):
    done = subprocess.run(list(map(str, words)), text=True, capture_output=True)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def names_in_help(text):
    """The options of a --help, which stand in the first column: {"-K", "--pp"}."""
    heads = re.findall(r"^  (-[-\w,]+)", text, re.M)
    return {name for head in heads for name in head.split(",")}


def entries_in_help(text):
    """Of each option and argument by place: its name, what stands beside it, what it is for."""
    column = 30  # where purposes begin, on a line of their own where the head is longer
    entries, heading, lines = [], "", text.splitlines() + [""]
    for line, after in zip(lines, lines[1:]):
        if re.fullmatch(r"\w[^:]*:", line):
            heading = line
        if not re.match(r"  -" if heading != "Positionals:" else r"  \S", line):
            continue
        alone = after.startswith(" " * column)
        head, purpose = (line, after) if alone else (line[:column], line[column:])
        name, _, beside = head.strip().partition(" ")
        entries.append((name, beside, purpose.strip()))
    return entries


def lacks(page, text):
    """What --help, `text`, says of a value and the page does not."""
    paragraphs = {}
    for head, body in re.findall(r"^\.TP\n(.*)\n(.*)\n", page, re.M):
        for name in plain(head).replace("...", "").replace(",", " ").split():
            paragraphs.setdefault(name, plain(head + "\n" + body))
    for name, beside, purpose in entries_in_help(text):
        name = name.split(",")[-1]
        entry = paragraphs.get(name)
        if entry is None:
            yield f"no paragraph of {name}"
            continue
        if " ..." in f" {beside} " and " ..." not in entry.split("\n")[0]:
            yield f"{name}: not that there may be several"
        if " ..." in f" {beside} " and not name.startswith("-"):
            synopsis = plain(page.split(".SH SYNOPSIS\n")[1].split("\n")[0])
            if f"{name} ..." not in synopsis:
                yield f"{name}: not several in the synopsis"
        excludes = re.search(r"Excludes: (\S+)", beside)
        if excludes and f"Not with {excludes[1]}" not in entry:
            yield f"{name}: not that it excludes {excludes[1]}"
        default = re.search(r"=(.*?)(?= \.\.\.| REQUIRED| Excludes|$)", beside)
        if default and "default" not in purpose and f"(default: {default[1]})" not in entry:
            yield f"{name}: not its default {default[1]}"
        if "REQUIRED" in beside and name.startswith("-") and "Required." not in entry:
            yield f"{name}: not that it is required"


def plain(page):
    """What a reader sees of a page, by the escapes that it may have: no other is known here."""
    escapes = {r"\-": "-", r"\fB": "", r"\fI": "", r"\fR": "", r"\(aq": "'", r"\(dq": '"',
               r"\(ga": "`", r"\(ha": "^", r"\(ti": "~", r"\&": ""}
    for escape, text in escapes.items():
        page = page.replace(escape, text)
    return page.replace(r"\e", "\\")


def faults_of(path, expected):
    page = path.read_text()
    faults = [f"{path.name}: no {name}" for name in sorted(expected)
              if not re.search(rf"(?<![-\w]){re.escape(name)}(?![-\w])", plain(page))]
    # A line is text or one of the requests that the pages are made of.
    requests = re.compile(r'\.(TH|SH|SS|TP|nf|fi|nh|ad|br|\\")( |$)')
    faults += [f"{path.name}: {line}" for line in page.splitlines()
               if line[:1] in (".", "'") and not requests.match(line)]
    if shutil.which("groff"):
        done = subprocess.run(["groff", "-man", "-ww", "-Tutf8", "-P-cbou", path], text=True,
                              capture_output=True)
        faults += [f"{path.name}: {line}" for line in done.stderr.splitlines()]
        # Where a system's groff leaves the hyphen that is escaped, it is typed as another.
        shown = done.stdout.replace("\N{MINUS SIGN}", "-")
        faults += [f"{path.name}: groff prints no {name}" for name in sorted(expected)
                   if name not in shown]
    return faults


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name, "man1")
    run(weir, "--man-pages", folder)
    overview = run(weir, "--help")
    commands = re.findall(r"^  ([a-z]+) ", overview.split("Subcommands:")[1], re.M)
    assert len(commands) > 15, commands
    pages = {f"weir-{command}.1" for command in commands} | {"weir.1"}
    written = {page.name for page in folder.iterdir()}
    assert written == pages, written ^ pages
    common = names_in_help(overview.split("Subcommands:")[0]) - {"-h"}
    faults = faults_of(folder / "weir.1", common | {f"weir-{command}" for command in commands})
    faults += [f"weir.1: {lack}" for lack in
               lacks((folder / "weir.1").read_text(), overview.split("Subcommands:")[0])
               if not re.search(r"(-h|--help|--version)", lack)]
    for page in sorted(folder.iterdir()):
        status = page.read_text().split(".SH EXIT STATUS\n")[1]
        assert status.startswith("0 done, "), f"{page.name}: {status}"
        assert "Default: " not in page.read_text(), page.name
    options = 0
    for command in commands:
        page, text = folder / f"weir-{command}.1", run(weir, command, "--help")
        own = names_in_help(text) - {"-h", "--help"}
        options += len(own)
        faults += faults_of(page, own | {"weir"})
        faults += [f"{page.name}: {lack}" for lack in lacks(page.read_text(), text)
                   if "--help" not in lack]
    # Twice the same.
    run(weir, "--man-pages", pathlib.Path(name, "again"))
    for page in sorted(folder.iterdir()):
        assert pathlib.Path(name, "again", page.name).read_bytes() == page.read_bytes(), page
    # Where no folder can be, one line says so.
    pathlib.Path(name, "file").write_text("")
    done = subprocess.run([weir, "--man-pages", pathlib.Path(name, "file")], text=True,
                          capture_output=True)
    assert done.returncode == 3 and done.stderr.count("\n") == 1, done
    # Nowhere, and of a sub-command, are no folders: nothing is written.
    empty = pathlib.Path(name, "empty")
    empty.mkdir()
    for words in (["--man-pages", ""], ["--man-pages="], ["sweep", "--man-pages", "x"]):
        done = subprocess.run([weir, *words], text=True, capture_output=True, cwd=empty)
        assert done.returncode == 2 and done.stderr.count("\n") == 1, (words, done)
        assert not list(empty.iterdir()), (words, list(empty.iterdir()))
print("\n".join(faults) or f"manual: {len(pages)} pages, {options} options of commands")
sys.exit(1 if faults else 0)
