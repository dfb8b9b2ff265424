#!/usr/bin/env python3
"""Every command has a page whose examples give, run as they are written, what the page shows; and
so does every other page with a console block that is no tutorial.
Usage: commands_test.py SOURCE_DIR WEIR [--long | --watched]   (watched: by a sanitizer)"""
# SPDX-License-Identifier: Apache-2.0
import pathlib
import re
import subprocess
import sys
import tempfile

import pages

source, weir, long = pathlib.Path(sys.argv[1]), sys.argv[2], "--long" in sys.argv
SECONDS_MAX = 60  # of all pages' short examples: they take some 5 on an idle machine
faults = []


def runner_sees():
    """A page that is wrong in one place is found wrong; one that says what varies is not."""
    def verdict(block, name="page.md"):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder, name)
            page.write_text(block)
            return bool(pages.check(page, weir, source)[0])

    def block(output, classes=""):
        kind = f"{{code-block}} console\n:class: {classes}\n" if classes else "console\n"
        return f"```{kind}$ printf 'step 12.5 ms\\nrank 1\\n'\n{output}\n```\n"

    right = ["step 12.5 ms\nrank 1"], ["step ... ms\n..."], ["step 3 s\nrank 7", "varies"], [
        "step 12.6 ms\nrank 1", "about"], ["...\nrank 1"]
    wrong = ["step 12.5 ms"], ["step 12.5 ms\nrank 2"], ["step 12.5 ms\nrank 1\nrank 2"], [
        "span 12.5 ms\nrank 1", "varies"], ["step 15.5 ms\nrank 1", "about"], ["step 12.5 ms\n..."
        "\nrank 2"]
    for case in right:
        assert not verdict(block(*case)), case
    for case in wrong:
        assert verdict(block(*case)), case
    assert verdict("```console\n$ false\n```\n")
    assert not verdict("```console\n$ false\n$ echo $?\n1\n```\n")
    assert not verdict("```{code-block} text\n:caption: a.txt\n\nhere\n```\n"
                       "```console\n$ cat \\\n> a.txt\nhere\n```\n")


runner_sees()
commands = subprocess.run([weir, "--help"], text=True, capture_output=True, check=True).stdout
names = re.findall(r"^  ([a-z]+) ", commands.split("Subcommands:")[1], re.M)
assert len(names) >= 15, names
for name in names:
    page = source / f"docs/commands/{name}.md"
    if not page.exists():
        faults.append(f"docs/commands/{name}.md: weir {name} has no page")
    elif not any(re.search(rf"\bweir (-\S+ )*{name}\b", part.words)
                 for part in pages.read_page(page) if isinstance(part, pages.Command)):
        faults.append(f"docs/commands/{name}.md: no example of weir {name}")

count, seconds = 0, 0.0
for page in sorted((source / "docs").rglob("*.md")):
    if "tutorials" in page.parts:  # run with what is installed: tutorials_test.py
        continue
    if any(isinstance(part, pages.Command) for part in pages.read_page(page)):
        found, times = pages.check(page, weir, source / "tools/examples", long)
        faults += found
        count += len(times)
        seconds += sum(each for _, each in times)
if not long and "--watched" not in sys.argv and seconds > SECONDS_MAX:
    faults.append(f"the short examples take {seconds:.1f} s: mark those of more than one as long")
print("\n".join(faults) or f"commands: {count} examples, {seconds:.1f} s")
sys.exit(1 if faults else 0)
