#!/usr/bin/env python3
"""Every control of `weir page` does what it says, in headless Chromium: each slider by a closed
form or by the command, the schedule beside, the cap of memory, lower bound and causes of idle
time, the bubble over M on its published curve, the list of all, a file dropped, chosen or pasted,
what the buttons save, and the colours of what was measured.
Usage: controls_test.py SOURCE_DIR WEIR"""
# SPDX-License-Identifier: Apache-2.0
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(sys.argv[1]) / "tests/report"))
import browser

if not browser.find():
    print("skipped: no Chromium here (Debian: chromium)")
    sys.exit(77)
weir = str(pathlib.Path(sys.argv[2]).resolve())
EQUAL = {"F": 1, "I": 1, "W": 1, "latency": 0}
OWN = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"


def until(tab, script, what):
    for _ in range(100):
        if tab.ask(script):
            return
        time.sleep(0.05)
    raise AssertionError(f"{what}: {script}: {tab.ask('$(`said`).textContent')}")


def choose(tab, **values):
    """Like a hand: a value, and the event that a slider or a list sends."""
    for name, value in values.items():
        tab.ask(f"$('{name}').value = {json.dumps(str(value))};"
                f"$('{name}').dispatchEvent(new Event('input', {{bubbles: true}}))")


def command(name, ranks, microbatches, times):
    words = [weir, "-q", "--json", "schedule", name, "-K", str(ranks), "-M", str(microbatches),
             "--uniform", ",".join(f"{part}={value}ms" for part, value in times.items())]
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def sliders(tab, url):
    """1F1B of K = 4, M = 8, F = I = W = 1 ms takes (M + K - 1)(F + I + W) = 33 ms, and the others
    what each slider alone makes of it; messages of half a millisecond as the command says."""
    slow = command("1f1b", 4, 8, {**EQUAL, "latency": 0.5})["step_time_s"] * 1e3
    assert slow > 33
    for values, step in (({}, 33), ({"K": 6}, 39), ({"M": 16}, 57), ({"F": 2}, 44), ({"I": 2}, 44),
                         ({"W": 3}, 55), ({"c": 0.5}, round(slow, 3)),
                         # 8 x 3 ms and a bubble of (K - 1) x 3 / v: 24 + 2.25.
                         ({"s": "interleaved-1f1b", "v": 4}, 26.25),
                         # S slices of each sequence fill the pipeline by (K - 1) x 3 / S.
                         ({"s": "seq1f1b", "S": 3}, None)):
        tab.show("about:blank", 1280, "light")
        tab.show(url, 1280, "light")
        choose(tab, **values)
        if step is None:
            until(tab, "$('said').textContent.startsWith('seq1f1b: a step of 27 ms')", values)
            continue
        name = values.get("s", "1f1b")
        until(tab, f"$('said').textContent.startsWith('{name}: a step of {step:g} ms,')", values)


def beside_and_bounds(tab, url):
    """ZB-H1 beside it takes M (F + I + W) + (K - 1)(F + I - W) = 27 ms; the table has each one's
    lower bound and both bubbles as the command says them, and idle time rank by rank."""
    tab.show(url, 1280, "light")
    until(tab, "$('said').textContent.endsWith('zb-h1 takes 27 ms.')", "beside")
    assert tab.ask("panels.length") == 2
    rows = tab.ask("[...$('facts').rows].map(r => [...r.cells].map(c => c.textContent))")
    assert rows[0][1:6] == ["step", "lower bound", "over it", "bubble", "by span"], rows
    causes = tab.ask("[...$('causes').rows].map(r => [...r.cells].map(c => c.textContent))")
    for row, name in zip(rows[1:], ("1f1b", "zb-h1")):
        told = command(name, 4, 8, EQUAL)
        assert row[0] == name and row[1:3] == [f"{told[key] * 1e3:g} ms" for key in
                                               ("step_time_s", "lower_bound_s")], (row, told)
        assert row[4:6] == [f"{told[key] * 100:.1f} %" for key in
                            ("bubble_fraction", "bubble_fraction_span")], row
        for rank in told["ranks"]:
            its, = [cells for cells in causes if cells[0] == f"{name}, rank {rank['rank']}"]
            for head in causes[0][2:]:
                key = {"waiting for the end": "optimizer"}.get(head, head)
                share = rank["idle_s"][key] / told["step_time_s"]
                assert its[causes[0].index(head)] == f"{share * 100:.1f} %", (its, head, share)
    choose(tab, b="")
    until(tab, "panels.length === 1", "nothing beside")


def cap(tab, url):
    """1F1B holds K = 4 micro-batches on its first rank: three are too few, four are enough; the cap
    is a dashed line below the timeline."""
    tab.show(url, 1280, "light")
    for most, fits in ((3, "no"), (4, "yes")):
        choose(tab, cap=most)
        until(tab, f"$('facts').rows[1]?.lastChild.textContent === '{fits}'", most)
        over = tab.ask("$('facts').rows[1].lastChild.className === 'over'")
        assert over == (fits == "no"), most
        assert tab.ask("timelineSvg().includes('stroke-dasharray')"), most
    choose(tab, cap=0)
    until(tab, "!timelineSvg().includes('stroke-dasharray')", "no cap")


def over_m(tab, url):
    """1F1B's bubble lies on its closed form at every M, and the text says which that is; with
    latency, of which the form knows nothing, above it."""
    tab.show(url, 1280, "light")
    until(tab, "$('form').textContent === '1f1b, as published: an excess of (K-1)(F+B).'", "form")
    lines = ("[...$('overM').querySelectorAll('polyline')].map(l => [l.getAttribute("
             "'stroke-dasharray') !== null, l.getAttribute('stroke'), l.getAttribute('points')])")
    drawn = [line for line in tab.ask(lines) if line[2].count(" ") > 4]
    (_, _, own), (_, _, other), (dashed, _, form) = drawn
    assert dashed and own == form and other != form, drawn
    choose(tab, c=2)
    until(tab, "$('form').textContent.endsWith('without latency.')", "latency")
    own, _, form = ([float(point.split(",")[1]) for point in line[2].split()]
                    for line in tab.ask(lines) if line[2].count(" ") > 4)
    assert all(slow < closed for slow, closed in zip(own, form)), (own, form)  # higher up


def all_schedules(tab, url):
    """Sixteen and their head, the fastest first; a press takes one."""
    tab.show(url, 1280, "light")
    until(tab, "$('all').rows.length === 17", "the list")
    steps = tab.ask("[...$('all').rows].slice(1).map(r => parseFloat(r.cells[1].textContent))")
    steps = [step for step in steps if step is not None]
    assert len(steps) > 10 and steps == sorted(steps), steps
    tab.ask("[...$('all').querySelectorAll('button')].find(b => b.value === 'gpipe').click()")
    until(tab, "$('said').textContent.startsWith('gpipe: ')", "gpipe")
    assert tab.ask("$('s').value") == "gpipe"


def own_schedule(tab, url):
    """K = 2, M = 2 of three milliseconds each: 9 ms, however the file comes."""
    file = f"new File([{json.dumps(OWN)}], 'mine.csv')"
    held = f"(() => {{ const d = new DataTransfer(); d.items.add({file}); return d; }})()"
    ways = {"dropped": "document.dispatchEvent(new DragEvent('drop', {bubbles: true, "
                       f"dataTransfer: {held}}}))",
            "chosen": f"$('file').files = {held}.files; "
                      "$('file').dispatchEvent(new Event('change'))",
            "pasted": f"$('paste').value = {json.dumps(OWN)}; "
                      "$('paste').dispatchEvent(new Event('input'))"}
    for way, script in ways.items():
        tab.show("about:blank", 1280, "light")
        tab.show(url, 1280, "light")
        tab.ask(script + "; null")
        until(tab, "$('said').textContent.startsWith('your own: a step of 9 ms')", way)
        tab.ask("$('away').click()")
        until(tab, "$('said').textContent.startsWith('1f1b: ')", f"{way}, and away")


def saved(tab, url):
    """What the three buttons hand to the browser."""
    tab.show(url, 1280, "light")
    tab.ask("window.kept = []; save = (name, text, type) => window.kept.push([name, text, type]);"
            "for (const id of ['svg', 'order', 'times']) $(id).click()")
    (svg, order, times) = tab.ask("window.kept")
    assert (svg[0], order[0], times[0]) == ("timeline.svg", "schedule.csv", "timeline.csv")
    assert svg[1].startswith("<svg ") and "1f1b: 33 ms" in svg[1] and "zb-h1: 27 ms" in svg[1]
    assert order[1].splitlines()[3] == "3F0,3B0,3F1,3B1,3F2,3B2,3F3,3B3,3F4,3B4,3F5,3B5,3F6,3B6," \
        "3F7,3B7", order
    assert len(times[1].splitlines()) == 1 + 4 * 8 * 2 + 4 * 8 * 3, times[1][:100]


def measured(tab, folder):
    """A half longer than forecast is wholly red, a half shorter wholly blue, as long is grey, an
    eighth longer half-way between grey and red."""
    layers = "name,kind,parameters,f_ms,i_ms,w_ms,activation_bytes,boundary_bytes,count\n"
    (folder / "layers.csv").write_text(layers + "l,x,1000,1,2,1,4096,2048,2\n")
    for words in (["plan", "layers.csv", "-K", "2", "-M", "4", "-o", "plan.json"],
                  ["run", "plan.json", "--backend", "synthetic", "--steps", "2", "-o", "out"],
                  ["page", "plan.json", "--trace", "out/measured.json", "-o", "plan.html"]):
        subprocess.run([weir, "-q", *words], check=True, capture_output=True, cwd=folder)
    tab.show((folder / "plan.html").as_uri(), 1280, "light")
    until(tab, "!$('measured').hidden", "the measurement")
    pixel = """(longer => {
      // All as forecast but the first: the machine may have been disturbed.
      PLAN.measured.times = PLAN.times;
      for (const pair of drawMeasured.pairs.flat()) pair.measured = pair.forecast;
      const pair = drawMeasured.pairs[0][0], [from, to] = pair.forecast;
      pair.measured = [from, from + (1 + longer) * (to - from)];
      drawMeasured();
      const ratio = window.devicePixelRatio || 1, [x, y] = [LEFT + 8, ROW + 4];
      const its = $('pairs').getContext('2d').getImageData(x * ratio, y * ratio, 1, 1).data;
      return [...its].slice(0, 3);
    })"""
    rgb = "((hex) => [1, 3, 5].map(at => parseInt(hex.slice(at, at + 2), 16)))({})"
    red, blue = (tab.ask(rgb.format(f"colour('{name}')")) for name in ("red", "blue"))
    grey = tab.ask(rgb.format("greyOfPage()"))
    between = [round((one + other) / 2) for one, other in zip(grey, red)]
    for longer, colour in ((0.5, red), (-0.5, blue), (0, grey), (0.125, between)):
        seen = tab.ask(f"{pixel}({longer})")
        assert all(abs(a - b) <= 1 for a, b in zip(seen, colour)), (longer, seen, colour)


with tempfile.TemporaryDirectory() as name:
    page = pathlib.Path(name) / "page.html"
    subprocess.run([weir, "-q", "page", "-o", page], check=True, stdout=subprocess.DEVNULL)
    tab = browser.Browser()
    parts = (sliders, beside_and_bounds, cap, over_m, all_schedules, own_schedule, saved)
    try:
        for part in parts:
            part(tab, page.as_uri())
        measured(tab, pathlib.Path(name))
        # The browser's advice on reading pixels is for us who look.
        left = [line for line in tab.complaints if "willReadFrequently" not in line]
        assert not left, left
    finally:
        tab.close()
print(f"page: {len(parts) + 1} kinds of control")
