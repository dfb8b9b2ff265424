#!/usr/bin/env python3
"""The manual pages hold every option that --help has, in every command, and groff reads them
without a warning, where it is here. Usage: manual_test.py SOURCE_DIR WEIR"""
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
    options = 0
    for command in commands:
        own = names_in_help(run(weir, command, "--help")) - {"-h", "--help"}
        options += len(own)
        faults += faults_of(folder / f"weir-{command}.1", own | {"weir"})
    # Twice the same.
    run(weir, "--man-pages", pathlib.Path(name, "again"))
    for page in sorted(folder.iterdir()):
        assert pathlib.Path(name, "again", page.name).read_bytes() == page.read_bytes(), page
    # Where no folder can be, one line says so.
    pathlib.Path(name, "file").write_text("")
    done = subprocess.run([weir, "--man-pages", pathlib.Path(name, "file")], text=True,
                          capture_output=True)
    assert done.returncode == 3 and done.stderr.count("\n") == 1, done
print("\n".join(faults) or f"manual: {len(pages)} pages, {options} options of commands")
sys.exit(1 if faults else 0)
