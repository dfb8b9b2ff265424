#!/usr/bin/env python3
"""Runs the console blocks of documentation pages as they are written, and holds the output to what
the page shows.

    pages.py [--long] [--write] WEIR EXAMPLES PAGE...

A page's commands run in order, in one bash, in an empty folder; `weir` is the command WEIR and
$examples its folder of examples. In a block `console`, a line "$ COMMAND" is run ("> " goes on with
it), what follows is its output, stdout and stderr together. A command ends with exit code 0 unless
the next one is `echo $?`. A code block with a caption is a file of that name, one by
literalinclude is copied. What may differ from machine to machine is said on the page:

    ...             in a line: any text; as a line of its own: any lines
    :class: varies  every number is any number (times, and memory that was measured), and lines
                    "weir: ..." that the page does not show are passed over (a busy machine's)
    :class: about   a number is within a tenth of the one shown (forecasts by built-in costs)
    :class: long    takes longer than a second or needs the machine alone: run with --long only

With --write the page is given the output there is, where it differs.
"""
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

SECONDS_MAX = 900  # of a page
FENCE = re.compile(r"^(`{3,})(?:\{([\w-]+)\})?\s*(\S*)\s*$")
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
ANYTHING = re.compile(r"(?<!\.)\.\.\.(?!\.)")  # not the dots of a timeline
# A number with its unit, which changes with its size, and the room it takes in a table.
MEASURED = re.compile(
    r"[-+]?\b\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?(?: ?(?:ns|us|ms|s|min|h|B|KiB|MiB|GiB)\b)?")


class Command:
    """One command of a block: lines `first` to `last` of the page are its output."""

    def __init__(self, words, classes, first):
        self.words, self.classes, self.first, self.output = words, classes, first, []

    def __str__(self):
        return self.words.splitlines()[0]


def read_page(path):
    """[Command or (file name, text)] in the page's order."""
    parts, block = [], None
    for number, line in enumerate(path.read_text().splitlines()):
        fence = FENCE.match(line)
        if block is None and fence:
            block = {"mark": fence[1], "kind": fence[2], "word": fence[3], "lines": [],
                     "class": set(), "caption": None, "head": True}
        elif block is not None and line.startswith(block["mark"]):
            parts += parts_of(block, path)
            block = None
        elif block is not None:
            option = re.match(r":(\w+): (.*)", line) if block["head"] and block["kind"] else None
            blank = block["head"] and block["kind"] and not line  # parts options from the text
            block["head"] = bool(option)
            if option and option[1] == "class":
                block["class"] = set(option[2].split())
            elif option and option[1] == "caption":
                block["caption"] = option[2]
            elif not option and not blank:
                block["lines"].append((number, line))
    if block is not None:
        sys.exit(f"{path}: a block does not end")
    return parts


def parts_of(block, path):
    if block["kind"] == "literalinclude":
        source = path.parent / block["word"]
        return [(block["caption"] or source.name, source.read_text())]
    if block["kind"] in (None, "code-block") and block["word"] == "console":
        return commands_of(block)
    if block["caption"]:
        return [(block["caption"], "".join(line + "\n" for _, line in block["lines"]))]
    return []


def commands_of(block):
    commands = []
    for number, line in block["lines"]:
        if line.startswith("$ "):
            commands.append(Command(line[2:], block["class"], number + 1))
        elif line.startswith("> ") and commands and not commands[-1].output:
            commands[-1].words += "\n" + line[2:]
            commands[-1].first = number + 1
        elif commands:
            commands[-1].output.append(line)
    return commands


def run_all(commands, folder, weir, examples):
    """Of each command (exit code, lines, seconds); fewer than there are where the shell ended."""
    script = ""
    for command in commands:  # \036 and its line part the outputs
        script += command.words + "\n"
        script += "_was=$?; printf '\\036%d %s\\n' $_was $EPOCHREALTIME; (exit $_was)\n"
    binary = folder / ".bin"  # no part of what the page makes: hidden, and first in PATH
    binary.mkdir()
    if pathlib.Path(weir).name != weir:
        (binary / "weir").symlink_to(pathlib.Path(weir).resolve())
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    environment.update(PATH=f"{binary}:{os.environ['PATH']}", HOME=str(folder), NO_COLOR="1",
                       LC_ALL="C.UTF-8", examples=str(pathlib.Path(examples).resolve()))
    begun = time.time()
    done = subprocess.run(["bash", "-c", script], cwd=folder, env=environment, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=SECONDS_MAX)
    results, before = [], begun
    pieces = done.stdout.split("\036")
    for output, end in zip(pieces, pieces[1:]):
        code, stamp = end.split("\n", 1)[0].split()
        # What precedes the first newline of a piece is the mark of the command before.
        text = output if not results else output.split("\n", 1)[1]
        results.append((int(code), text.rstrip("\n").split("\n") if text.strip() else [],
                        float(stamp) - before))
        before = float(stamp)
    return results


def comparable(line, classes):
    """The line without what may differ, and its numbers where they are compared by themselves."""
    line = line.rstrip()
    if "varies" in classes:
        line = MEASURED.sub("#", line)
        return re.sub(r"[\s#]*#[\s#]*|\s+", lambda m: " # " if "#" in m[0] else " ", line), []
    if "about" in classes:
        numbers = [float(number.replace(",", "")) for number in NUMBER.findall(line)]
        return re.sub(r"\s+", " ", NUMBER.sub("#", line)), numbers
    return line, []


def same_line(shown, found, classes):
    (a, near), (b, numbers) = comparable(shown, classes), comparable(found, classes)
    pattern = ".*?".join(re.escape(part) for part in ANYTHING.split(a))
    if not re.fullmatch(pattern, b):
        return False
    if ANYTHING.search(shown):  # which number is whose is not known
        return True
    return len(near) == len(numbers) and all(
        abs(x - y) <= 0.1 * max(abs(x), abs(y)) + 0.1 for x, y in zip(near, numbers))


def same(shown, found, classes):
    """Whether the output found is the one shown; a line "..." stands for any lines."""
    if not shown:
        return not found
    if shown[0].strip() == "...":
        return any(same(shown[1:], found[n:], classes) for n in range(len(found) + 1))
    return bool(found) and same_line(shown[0], found[0], classes) and same(
        shown[1:], found[1:], classes)


def unshown_warning(line, command):
    """A disturbed machine is warned of, and the page was made on a quiet one. Where the output
    varies, other warnings come and go, too."""
    varies = "varies" in command.classes
    warning = "weir: " if varies else "weir: the machine was disturbed: "
    return line.startswith(warning) and not any(
        same_line(shown, line, command.classes) for shown in command.output)


def corrected(shown, found, classes):
    """What the page shows from now on: lines that are still true stay as they are written."""
    if len(shown) != len(found):
        return found
    return [a if same_line(a, b, classes) else b for a, b in zip(shown, found)]


def check(path, weir, examples, long=False, write=False):
    """([fault], [(command, seconds)]) of a page."""
    path = pathlib.Path(path)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        commands = []
        for part in read_page(path):
            if not isinstance(part, Command):
                (folder / part[0]).write_text(part[1])
            elif long or "long" not in part.classes:
                commands.append(part)
        results = run_all(commands, folder, weir, examples)
    faults, changes = [], []
    for n, (command, (code, found, _)) in enumerate(zip(commands, results)):
        place = f"{path.name}:{command.first}: $ {command}"
        tried = n + 1 < len(commands) and commands[n + 1].words == "echo $?"
        found = [line for line in found if not unshown_warning(line, command)]
        if code != 0 and not tried:
            faults.append("\n  | ".join([f"{place}: exit code {code}", *found]))
        elif not same(command.output, found, command.classes):
            shown = ["  < " + line for line in command.output]
            there = ["  | " + line for line in found]
            faults.append("\n".join(
                [f"{place}: the page shows", *shown, "  and there is", *there]))
            changes.append((command, corrected(command.output, found, command.classes)))
    if len(results) < len(commands):
        faults.append(f"{path.name}: the shell ended before $ {commands[len(results)]}")
    if write and changes:
        lines = path.read_text().splitlines()
        for command, output in reversed(changes):
            lines[command.first:command.first + len(command.output)] = output
        path.write_text("\n".join(lines) + "\n")
    return faults, [(str(c), seconds) for c, (_, _, seconds) in zip(commands, results)]


if __name__ == "__main__":
    flags = {word for word in sys.argv[1:] if word.startswith("--")}
    words = [word for word in sys.argv[1:] if word not in flags]
    if flags - {"--long", "--write"} or len(words) < 3:
        sys.exit(__doc__)
    if shutil.which("bash") is None:
        sys.exit("pages: no bash")
    wrong = 0
    for page in words[2:]:
        faults, times = check(page, words[0], words[1], "--long" in flags, "--write" in flags)
        wrong += len(faults)
        print("\n".join(faults) if faults else f"{page}: {len(times)} commands, as it says")
        for command, seconds in times:
            print(f"  {seconds:6.2f} s  {command}")
    sys.exit(1 if wrong else 0)
