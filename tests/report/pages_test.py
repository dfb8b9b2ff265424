#!/usr/bin/env python3
"""Every page that Weir writes, opened in headless Chromium: on a telephone and on a desk, on light
pages and on dark ones. Its texts are there and nothing is wider than the window, its script runs
without a complaint, its timeline can be pointed at, zoomed and put back.
Usage: pages_test.py SOURCE_DIR WEIR [PICTURES]"""
# SPDX-License-Identifier: Apache-2.0
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

import browser
from looks import keep, look

if not browser.find():
    print("skipped: no Chromium here (Debian: chromium)")
    sys.exit(77)
source, weir = map(os.path.abspath, sys.argv[1:3])
pictures = pathlib.Path(sys.argv[3]).absolute() if len(sys.argv) > 3 else None
TINY = {"model_type": "gpt2", "n_embd": 16, "n_head": 2, "n_layer": 3, "vocab_size": 32,
        "n_positions": 8}
MADE = ["How this page was made", "command", "date", "version", "seed", "weir 0.", "2026-11-23"]
CAUSES = ["bubble", "fill", "drain", "imbalance", "communication", "host", "optimizer"]
EXPLAINED = ["Where the forecast step goes", "What one change would bring", "more samples/s"]
NAME = "a 'name' <b>&amp; $(x).json"  # of a model: text wherever it stands


def run(*words):
    done = subprocess.run([weir, "-q", "--seed", "7", *map(str, words)], capture_output=True,
                          text=True, env={**os.environ, "SOURCE_DATE_EPOCH": "1795392000"})
    assert done.returncode == 0, (words, done.stderr)


def pages():
    """Each page with the texts that it must have."""
    pathlib.Path(NAME).write_text(json.dumps(TINY))
    examples = f"{source}/tools/examples"
    run("plan", NAME, "-K", 2, "-M", 4, "-o", "plan.json")
    run("sweep", NAME, "-K", "1,2", "-M", "4", "--baseline", "plan.json", "--report", "sweep.html")
    yield "sweep.html", MADE + CAUSES + [f"weir sweep: {NAME}", "devices", "Pareto front",
                                         "--baseline plan.json --report sweep.html", "weights",
                                         "optimizer_state", "activations", *EXPLAINED,
                                         "Of the best plan"]
    llama = f"{examples}/models/llama-3-8b.json"
    run("plan", llama, "-K", 8, "--tp", 2, "--dp", 4, "-M", 32, "-b", 1, "--schedule", "gpipe",
        "--dtype", "bf16", "--attention", "fused", "--recompute", "full", "-o", "today.json")
    run("sweep", llama, "--cluster", "dgx-h100", "--gpus", 64, "-K", "8", "--tp", "2",
        "--schedule", "1f1b,zb-h1", "--baseline", "today.json", "--report", "large.html")
    yield "large.html", MADE + CAUSES + [
        "tokens/s a device", "MFU", "devices", "model TFLOP/s a device", "peak memory",
        "Forecast step with its", "best plan: ", "present plan: ", *EXPLAINED, "Of the best plan",
        "Of the present plan", "useful work at the device's peak", "re-materialisation: none"]
    run("tune", NAME, "--global-batch-size", 4, "--rounds", 1, "--steps", 1, "--plans", 2, "-o",
        "tuned")
    yield "tuned/report.html", MADE + CAUSES + ["(baseline)", "measured", "weights", "Accuracy",
                                                   "Forecast step", *EXPLAINED]
    run("evaluate", NAME, "--global-batch-size", 8, "--fit", 2, "--interval", 9, "--held-out", 3,
        "--rounds", 1, "-o", "evaluated")
    yield "evaluated/report.html", MADE + CAUSES + ["Where the forecasts are weak", "Method"]


SVG = "{http://www.w3.org/2000/svg}"


def drawn(page):
    """Of each picture of a page its texts, and the tips of its boxes."""
    pictures = re.findall(r"<svg.*?</svg>", pathlib.Path(page).read_text(), re.S)
    for picture in map(xml.etree.ElementTree.fromstring, pictures):
        yield ([text.text for text in picture.iter(f"{SVG}text")],
               [tip.text for box in picture.iter(f"{SVG}rect") for tip in box.iter(f"{SVG}title")])


def both_timelines():
    """A sweep draws each action of the winner's step and of the baseline's, under their names: F, I
    and W of zb-h1, F and B of gpipe, of 32 micro-batches on 8 ranks, and each rank's update. Both
    are on one axis with their intervals' ends."""
    timeline, = [picture for picture in drawn("large.html") if "rank 0 predicted" in picture[0]]
    texts, tips = timeline
    assert texts.index("best plan") < texts.index("present plan"), texts
    assert texts.count("rank 0 predicted") == texts.count("rank 7 predicted") == 2, texts
    kinds = collections.Counter(re.fullmatch(r"\d+([A-Z]+)\d* .*", tip)[1] for tip in tips)
    assert kinds == {"F": 2 * 256, "I": 256, "W": 256, "B": 256, "OPTIMIZER": 16}, kinds
    # On a telephone, on paper and on a desk the same is said.
    said = [texts for texts, _ in drawn("large.html") if "Forecast step with its" in str(texts)]
    assert len(said) == 3 and said[0][1:3] == said[1][1:3] == said[2][1:3], said
    for name, text in zip(("best", "present"), said[0][1:3]):
        assert re.fullmatch(name + r" plan: [\d.]+ s \([\d.]+ s to [\d.]+ s\)", text), text


OVERLAPS = """(() => {
  const faults = [];
  for (const svg of document.querySelectorAll('.chart svg')) {
    if (!svg.getClientRects().length) continue;
    const page = svg.viewBox.baseVal;
    const boxes = [...svg.querySelectorAll('text')].map(text => [text.textContent, text.getBBox()]);
    for (const [i, [name, a]] of boxes.entries()) {
      if (a.x < 0 || a.y < 0 || a.x + a.width > page.width || a.y + a.height > page.height)
        faults.push(name + ' is cut');
      for (const [other, b] of boxes.slice(i + 1))
        if (a.x < b.x + b.width && b.x < a.x + a.width
            && a.y + a.height * 0.8 > b.y + b.height * 0.2
            && b.y + b.height * 0.8 > a.y + a.height * 0.2)
          faults.push(name + ' and ' + other);
    }
  }
  return JSON.stringify(faults);
})()"""


def room(tab, page):
    """No text of a chart is cut or covers another's, wherever it is shown, and the tables that
    explain plans fit a telephone."""
    for width in (400, 900, 1400):
        tab.show(pathlib.Path(page).absolute().as_uri(), width, "light")
        faults = json.loads(tab.ask(OVERLAPS))
        assert not faults, f"{page}, {width} px: {faults}"
        cut = json.loads(tab.ask(
            "JSON.stringify([...document.querySelectorAll('h3 + .wide, .chart + .wide')]"
            ".map(e => [e.textContent.slice(0, 40), e.scrollWidth - e.clientWidth])"
            ".filter(([text, more]) => more > 0))"))
        assert not cut, f"{page}, {width} px: {cut}"


def wide(tab, page):
    """Charts are as wide as the page, to a twentieth, on a telephone and on a desk; a timeline is
    that wide or scrolls."""
    for width in (400, 1400):
        tab.show(pathlib.Path(page).absolute().as_uri(), width, "light")
        room = tab.ask("(() => { const style = getComputedStyle(document.body);"
                       " return document.body.clientWidth - parseFloat(style.paddingLeft)"
                       " - parseFloat(style.paddingRight); })()")
        for kind in ("chart", "timeline"):
            widths = json.loads(tab.ask(
                f"JSON.stringify([...document.querySelectorAll('.{kind} svg')].filter(s => "
                "s.getClientRects().length).map(s => s.getBoundingClientRect().width))"))
            assert widths or (kind == "timeline" and page.startswith("evaluated")), (page, kind)
            for its in widths:
                assert its >= 0.95 * room, f"{page}, {width} px: a {kind} of {its} in {room}"
                assert kind == "timeline" or its <= room, f"{page}, {width} px: {its} in {room}"


def in_order():
    """What to do comes first, then what that changes against today, then how it was found."""
    text = pathlib.Path("large.html").read_text()
    places = [text.index(part) for part in (
        "<p>Use <b>", "<dt>step, forecast</dt>", "Forecast step with its",
        "<h2>What changes against the present plan</h2>", "<p>First: ", "<h2>The best plans</h2>",
        "<h2>Timelines of the best plan and the present one</h2>",
        "<h2>Where the forecast step goes</h2>", "<h2>What one change would bring</h2>",
        "<h2>Step time against memory</h2>", "<h2>How this page was made</h2>")]
    assert places == sorted(places), places
    assert text.count('<tr class="best"><td>1: ') == 1, "one winner"
    # What is compared stands side by side: a column each, and the plan in use has its own point.
    assert "<th>best plan</th><th>share</th><th>present plan</th><th>share</th>" in text
    assert "<th>present plan</th><th>best plan</th>" in text
    assert len(re.findall(r"<title>present plan: [\d.]+, [\d.]+</title>", text)) == 3  # widths


def in_view(tab, page):
    """The first window says the step's time, its bubble and its memory, without a scroll."""
    for width in (400, 1400):
        tab.show(pathlib.Path(page).absolute().as_uri(), width, "light")
        said = tab.ask(
            "[...document.querySelectorAll('h1,p,dt,dd,th,td')].filter(e => {"
            " const box = e.getBoundingClientRect();"
            " return box.height && box.top >= 0 && box.bottom <= innerHeight; })"
            ".map(e => e.textContent).join(' ')")
        for what in (r"step, (forecast|measured)\D*\d", r"bubble, forecast", r"\d [KMG]iB\b"):
            assert re.search(what, said), f"{page}, {width} px: no {what} in view: {said}"


def point_and_zoom(tab, page):
    """Pointing says what an action is; Ctrl and the wheel, a double click and the buttons zoom."""
    tab.show(pathlib.Path(page).absolute().as_uri(), 1280, "light")
    part = "document.querySelector('.timeline svg').getAttribute('viewBox')"
    whole = tab.ask(part)
    place = json.loads(tab.ask(
        "(() => { const r = [...document.querySelectorAll('.timeline rect')]"
        ".find(r => r.querySelector('title')); r.scrollIntoView({block: 'center'});"
        "const b = r.getBoundingClientRect();"
        "return JSON.stringify([b.x + b.width / 2, b.y + b.height / 2]); })()"))
    output = "document.querySelector('.timeline output').textContent"
    assert tab.ask(output).startswith("Point at an action"), tab.ask(output)
    tab.mouse("mouseMoved", *place)
    assert re.fullmatch(r"\d+[FBIWR]\d+ [\d.]+ (s|ms|us|ns)", tab.ask(output)), tab.ask(output)

    def width():
        return float(tab.ask(part).split()[2])

    before = width()
    tab.mouse("mouseWheel", *place, deltaX=0, deltaY=-100, modifiers=2)  # with Ctrl
    assert abs(width() - before / 1.25) < 0.01, (before, width())
    button = "document.querySelectorAll('.timeline button')[{}].click()"
    tab.ask(button.format(0))
    assert abs(width() - before / 2.5) < 0.01, (before, width())
    tab.ask(button.format(1))
    assert abs(width() - before / 1.25) < 0.01, (before, width())
    x, y = place
    at = tab.ask(part)
    tab.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
    tab.mouse("mouseMoved", x - 30, y, button="left", buttons=1)
    tab.mouse("mouseReleased", x - 30, y, button="left", clickCount=1)
    assert float(tab.ask(part).split()[0]) > float(at.split()[0]), (at, tab.ask(part))
    tab.ask(button.format(2))
    assert [float(n) for n in tab.ask(part).split()] == [float(n) for n in whole.split()]
    for count in (1, 2):
        for kind in ("mousePressed", "mouseReleased"):
            tab.mouse(kind, x, y, button="left", clickCount=count)
    assert abs(width() - before / 2) < 0.01, (before, width())


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    tab = browser.Browser()
    try:
        count = 0
        for page, texts in pages():
            look(tab, pathlib.Path(page).absolute().as_uri(), texts)
            room(tab, page)
            wide(tab, page)
            if pictures:
                keep(tab, pathlib.Path(page).absolute().as_uri(), pictures,
                     page.removesuffix(".html").replace("/", "-"))
            if not page.startswith("evaluated"):  # it has charts alone
                in_view(tab, page)
                point_and_zoom(tab, page)
            assert not tab.complaints, f"{page}: {tab.complaints}"
            count += 1
        both_timelines()
        in_order()
        if pictures:  # for who looks at them: on a telephone and a desk, light and dark, on paper
            kept = {picture.name for picture in pictures.glob("large-*.png")}
            assert kept >= {f"large-{what}.png" for what in (
                "400-light", "400-dark", "1400-light", "1400-dark", "paper")}, kept
        # The test sees what it looks for.
        pathlib.Path("bad.html").write_text("<p style='width:900px'>x</p><script>no()</script>")
        tab.show(pathlib.Path("bad.html").absolute().as_uri(), 400, "light")
        assert tab.ask("document.documentElement.scrollWidth") > 400 and tab.complaints
    finally:
        tab.close()
print(f"pages: {count} in order")
