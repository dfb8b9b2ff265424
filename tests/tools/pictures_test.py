#!/usr/bin/env python3
"""Pictures as papers print them: 3.3 inches wide with ticks that do not collide, a legend, colours
of their own on dark pages, two schedules or memory in one, and 128 x 512 below 3 MB. With --fonts
instead that a PDF has its font in itself, by pdffonts, and its text can be copied, by pdftotext.
Usage: pictures_test.py SOURCE_DIR WEIR [--fonts]"""
# SPDX-License-Identifier: Apache-2.0
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

source, weir = map(os.path.abspath, sys.argv[1:3])
TIMES = ("--uniform", "F=1ms,I=1ms,W=1ms,latency=0s")
SVG = "{http://www.w3.org/2000/svg}"
BYTES_MAX = 3_000_000


def run(*words):
    done = subprocess.run([weir, "-q", *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def texts(name):
    """(x, y, size, anchor, text) of each text of an SVG."""
    for group in xml.etree.ElementTree.parse(name).getroot().iter(f"{SVG}g"):
        for text in group.findall(f"{SVG}text"):
            yield (float(text.get("x")), float(text.get("y")), float(group.get("font-size")),
                   group.get("text-anchor"), text.text)


def length(text):
    """In sizes: Helvetica's advances by kinds of character, each of the widest of its kind."""
    kinds = (("il.,;:'|tfrj -()/", 0.34), ("mwMW@%", 0.95), ("ABCDEFGHIJKLNOPQRSTUVXYZ", 0.78))
    return sum(next((wide for kind, wide in kinds if c in kind), 0.56) for c in text)


def collisions(name):
    """Texts of one line that overlap, or leave the picture."""
    width = float(xml.etree.ElementTree.parse(name).getroot().get("viewBox").split()[2])
    lines = {}
    for x, y, size, anchor, text in texts(name):
        long = size * length(text)
        start = x - {"start": 0, "middle": long / 2, "end": long}[anchor]
        lines.setdefault(round(y, 1), []).append((start, start + long, text))
    for line in lines.values():
        line.sort()
        yield from (line[i:i + 2] for i in range(len(line) - 1) if line[i][1] > line[i + 1][0])
        yield from (part for part in line if part[0] < -1 or part[1] > width + 1)


def dark(name):
    """Every class has a colour for dark pages, and most another than for light ones."""
    text = open(name).read()
    rules = dict(re.findall(r"\.(\w+)\{((?:fill|stroke):#[0-9a-f]{6})\}", text))
    used = re.findall(r'class="(\w+)" (fill|stroke)="(#[0-9a-f]{6})"', text)
    assert used and {name for name, _, _ in used} == set(rules), (name, rules, used)
    other = {name for name, what, light in used if rules[name] != f"{what}:{light}"}
    assert len(other) >= len(rules) - 2, (name, rules)  # what is written on boxes may stay white
    # A picture on a dark page has the page's colour behind it.
    assert '<g class="fillffffff181a1e"' in text


def narrow():
    """All schedules, 3.3 inches wide, in each palette."""
    names = re.findall(r"^\S+", run("schedule", "--list"), re.M)
    assert len(names) == 19, names
    for name in names:
        run("schedule", name, "-K", 4, "-M", 8, *TIMES, "--svg", "a.svg", "--width", "3.3in")
        found = list(collisions("a.svg"))
        assert not found, (name, found)
        dark("a.svg")
        assert 'width="237.6pt"' in open("a.svg").read()
    for palette in ("colour-blind", "grey"):
        run("schedule", "zb-h1", "--svg", "a.svg", "--palette", palette)
        dark("a.svg")
    # Durations with all sorts of digits.
    for time in ("1ns", "999us", "123.4ms", "9.99s", "7s", "33s"):
        run("schedule", "1f1b", "-K", 4, "-M", 8, "--uniform", f"F={time},I={time},W={time}",
            "--svg", "a.svg", "--width", "3.3in")
        assert not list(collisions("a.svg")), (time, list(collisions("a.svg")))
        ticks = [text for *_, text in texts("a.svg") if re.fullmatch(r"[\d.]+ (s|ms|us|ns)", text)]
        step = re.fullmatch(r"0*\.?0*([125])\.?0* .*", ticks[0])
        assert step and len(ticks) >= 2, (time, ticks)


def numbers():
    """Micro-batch numbers stand where names do not fit, all digits of them or none."""
    run("schedule", "gpipe", "-K", 2, "-M", 120, "--svg", "a.svg")
    run("schedule", "gpipe", "-K", 4, "-M", 8, "--svg", "b.svg", "--width", "3.3in")
    run("schedule", "gpipe", "-K", 4, "-M", 8, "--svg", "c.svg", "--width", "12in")
    written = {name: [t for _, _, size, anchor, t in texts(name) if (size, anchor) == (6.5,
               "middle")] for name in ("a.svg", "b.svg", "c.svg")}
    assert set(written["b.svg"]) == set("01234567"), written["b.svg"]
    assert len(written["b.svg"]) == 2 * 4 * 8
    assert "3F7" in written["c.svg"] and len(written["c.svg"]) == 2 * 4 * 8
    assert all(re.fullmatch(r"[01]?[FB]?\d+", t) and int(re.sub(".*[FB]", "", t)) < 120
               for t in written["a.svg"]), written["a.svg"]


def data(name):
    return list(csv.DictReader(open(name)))


def together():
    """Two schedules on one scale; a schedule with what its ranks hold, whose highest values are the
    peaks that the forecast says."""
    run("schedule", "1f1b", "-K", 4, "-M", 8, *TIMES, "--svg", "a.svg", "--width", "3.3in",
        "--beside", "zb-h1", "--memory")
    words = [t for *_, t in texts("a.svg")]
    for title in ("1f1b, K = 4, M = 8", "zb-h1, K = 4, M = 8", "B backward",
                  "W backward for weights"):
        assert words.count(title) == 1, (title, words)
    assert words.count("rank 3") == 4, words  # a row and a line in each
    assert not list(collisions("a.svg")), list(collisions("a.svg"))
    labels = {row["label"] for row in data("a.data.csv")}
    assert labels == {"1f1b, K = 4, M = 8", "zb-h1, K = 4, M = 8"}, labels
    refused = subprocess.run([weir, "schedule", "1f1b", "--beside", "gpipe"], capture_output=True)
    assert refused.returncode == 2 and b"--beside goes with a picture" in refused.stderr
    for name in ("gpipe", "1f1b", "zb-v", "interleaved-1f1b", "dualpipev"):
        said = json.loads(run("--json", "schedule", name, "-K", 4, "-M", 8, *TIMES, "--svg",
                              "a.svg", "--memory"))
        highest = [0] * 4
        for row in data("a.data.csv"):
            if row["action"] == "in_flight":
                rank = int(row["rank"])
                highest[rank] = max(highest[rank], int(row["value"]))
        assert highest == [r["peak_in_flight"] for r in said["ranks"]], (name, highest)


def memory():
    """A plan's memory under its timeline; no rank's line is above its forecast peak."""
    model = f"{source}/tools/examples/models/gpt2-mini.json"
    run("plan", model, "-K", 4, "-M", 8, "-o", "plan.json")
    said = json.loads(run("--json", "simulate", "plan.json", "--svg", "p.svg", "--memory"))
    words = [t for *_, t in texts("p.svg")]
    assert "memory, MiB" in words and "optimizer" in words, words
    held = [row for row in data("p.data.csv") if row["action"] == "memory_bytes"]
    for rank in said["ranks"]:
        most = max(int(row["value"]) for row in held if int(row["rank"]) == rank["rank"])
        peak = rank["peak_memory_bytes"]  # some of it is held for no time
        first = next(row for row in held if int(row["rank"]) == rank["rank"])
        assert int(first["value"]) > 0 and float(first["start_s"]) == 0, first  # weights, all along
        assert 0.9 * peak < most <= peak, (most, peak)
    assert not list(collisions("p.svg")), list(collisions("p.svg"))


def as_in_svg(*shown):
    """A TikZ picture has an SVG's texts, each at its place, and its boxes."""
    run(*shown, "--svg", "a.svg")
    run(*shown, "--tikz", "a.tex")
    text = open("a.tex").read()
    anchors = {"start": "base west", "middle": "base", "end": "base east"}
    node = r"\\node\[anchor=([a-z ]+),.*\] at \(([-\d.]+),([-\d.]+)\) \{(.*)\};"
    placed = [(anchor, float(x), float(y), re.sub(r"\\([#$%&_{}])", r"\1", words))
              for anchor, x, y, words in re.findall(node, text)]
    expected = [(anchors[anchor], x, y, words) for x, y, _, anchor, words in texts("a.svg")]
    assert len(placed) == len(expected) > 20, (len(placed), len(expected))
    for one, other in zip(sorted(placed), sorted(expected)):
        assert one[0] == other[0] and one[3] == other[3], (one, other)
        assert abs(one[1] - other[1]) < 0.06 and abs(one[2] - other[2]) < 0.06, (one, other)
    boxes = len(list(xml.etree.ElementTree.parse("a.svg").getroot().iter(f"{SVG}rect")))
    boxes -= 1  # behind an SVG lies the colour of the page
    assert text.count(" rectangle ++(") == boxes, (text.count(" rectangle ++("), boxes)
    defined = set(re.findall(r"\\definecolor\{(weir\d+)\}", text))
    assert set(re.findall(r"weir\d+", text)) == defined and len(defined) > 5, defined
    return {words for *_, words in placed}


def tikz():
    """One schedule with what it holds, and several with one of one's own, drawn together; LaTeX,
    where it is here, takes them."""
    run("schedule", "gpipe", "-K", 4, "-M", 12, "--csv", "mine.csv")
    several = ("mine.csv", "zb-h1", "zb-v", "1f1b")
    words = as_in_svg("schedule", *several, "-K", 4, "-M", 12, *TIMES, "--width", "7in")
    for name in several:
        assert any(text.startswith(name) for text in words), (name, words)
    as_in_svg("schedule", "zb-v", "-K", 4, "-M", 8, *TIMES, "--width", "3.3in", "--memory")
    refused = subprocess.run([weir, "schedule", "1f1b", "--svg", "a.png"], capture_output=True)
    assert refused.returncode == 2 and b".svg, .pdf or .tex" in refused.stderr, refused
    if not shutil.which("pdflatex"):
        return
    open("b.tex", "w").write("\\documentclass{article}\\usepackage{tikz}\\begin{document}\n"
                             "\\input{a}\n\\end{document}\n")
    made = subprocess.run(["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "b.tex"],
                          capture_output=True, text=True)
    assert made.returncode == 0 and os.path.getsize("b.pdf") > 0, made.stdout[-2000:]


def large():
    for kind in ("svg", "pdf"):
        run("schedule", "1f1b", "-K", 128, "-M", 512, f"--{kind}", f"l.{kind}", "--memory",
            "--csv", "l.csv")
        size = os.path.getsize(f"l.{kind}")
        assert size < BYTES_MAX, (kind, size)
        print(f"128 x 512: {size / 1e6:.2f} MB of {kind}")


def fonts():
    missing = [tool for tool in ("pdffonts", "pdftotext") if not shutil.which(tool)]
    if missing:
        print(f"skipped: no {' and '.join(missing)} here (Debian: poppler-utils)")
        sys.exit(77)
    run("schedule", "1f1b", "--pdf", "a.pdf", "--width", "3.3in", "--memory")
    listed = subprocess.run(["pdffonts", "a.pdf"], capture_output=True, text=True, check=True)
    rows = listed.stdout.splitlines()[2:]
    assert rows and not listed.stderr, listed
    for row in rows:
        assert re.search(r" TrueType +WinAnsi +yes yes ", row), row  # embedded, a part of the font
    text = subprocess.run(["pdftotext", "a.pdf", "-"], capture_output=True, text=True, check=True)
    assert "1f1b, K = 4, M = 8" in text.stdout and "F forward" in text.stdout, text.stdout


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    if "--fonts" in sys.argv:
        fonts()
    else:
        for part in (narrow, numbers, together, memory, tikz, large):
            part()
print("pictures: in order")
