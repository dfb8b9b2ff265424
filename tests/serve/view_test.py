#!/usr/bin/env python3
"""What `weir serve` draws, and what a hand does on it, in headless Chromium: memory by kind and
rank and the waterfall by the answers' own numbers, a front while the search runs, a point that is
clicked, files and logs that are dropped, a run that appears and goes on while it trains.
Usage: view_test.py SOURCE_DIR WEIR"""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(sys.argv[1]) / "tests/report"))
import browser
from served import SCRIPT, Served

if not browser.find():
    print("skipped: no Chromium here (Debian: chromium)")
    sys.exit(77)
source, weir = pathlib.Path(sys.argv[1]).resolve(), os.path.abspath(sys.argv[2])
PATIENCE_S = 60


def until(tab, script, what):
    begun = time.monotonic()
    while time.monotonic() - begun < PATIENCE_S:
        if tab.ask(script):
            return
        time.sleep(0.1)
    raise AssertionError(f"{what}: {script}; {tab.ask('$(`wrong`).textContent')}")


def drop(tab, name, text, where="document"):
    tab.ask(f"(() => {{ const d = new DataTransfer(); d.items.add(new File([{json.dumps(text)}], "
            f"{json.dumps(name)})); {where}.dispatchEvent(new DragEvent('drop', "
            "{bubbles: true, dataTransfer: d})); })()")


def dropped_job(tab, served):
    """A script that is dropped anywhere is read with what the fields say; returns the forecast."""
    tab.ask("$('cluster').value = 'dgx-h100'; $('gpus').value = 16")
    drop(tab, "job.sh", SCRIPT)
    until(tab, "$('facts').children.length > 3", "the forecast")
    fates = tab.ask("[...$('arguments').querySelectorAll('tbody tr')].map(r => r.textContent)")
    assert any(row.startswith("not understood") and "foo-bar 3" in row for row in fates), fates
    assert any(row.startswith("read") and "hidden-size 4096" in row for row in fates), fates
    return served.ask("simulate", {"plan": tab.ask("job.plan"), "cluster": "dgx-h100",
                                   "gpus": 16})["result"]


def memory(tab, told):
    """A bar a rank, as long as its peak; within it a piece a kind, whose tip has its bytes."""
    texts = tab.ask("[...$('memory').querySelectorAll('svg > text')].map(t => t.textContent)")
    tips = tab.ask("[...$('memory').querySelectorAll('rect title')].map(t => [t.textContent, "
                   "t.parentNode.getBoundingClientRect().width])")
    assert len(told["ranks"]) == 2
    for rank in told["ranks"]:
        name = f"rank {rank['rank']}"
        assert name in texts, texts
        its = {tip.split(", ")[1].split(":")[0]: wide for tip, wide in tips
               if tip.startswith(name + ",")}
        held = {kind.replace("_", " "): size for kind, size in rank["memory_bytes"].items() if size}
        assert set(its) == set(held), (its, held)
        largest = max(held, key=held.get)
        for kind, size in held.items():
            if its[kind] > 3:  # where a piece is not a hair
                assert abs(its[kind] / its[largest] - size / held[largest]) < 0.02, (kind, its)


def waterfall(tab, served):
    """A bar for each part that takes time, each where the one before it ended."""
    tab.ask("$('why').click()")
    until(tab, "$('waterfall').querySelectorAll('rect').length > 3", "where the step goes")
    parts = served.ask("explain", {"plan": tab.ask("planned.plan"), "cluster": "dgx-h100",
                                   "gpus": 16})["result"]["waterfall"]
    parts = [part for part in parts if part["time_ns"]]
    bars = tab.ask("[...$('waterfall').querySelectorAll('rect')].map(r => "
                   "['x', 'width'].map(a => Number(r.getAttribute(a))))")
    assert len(bars) == len(parts), (len(bars), len(parts))
    longest = max(range(len(parts)), key=lambda i: parts[i]["time_ns"])
    scale = bars[longest][1] / parts[longest]["time_ns"]
    at = bars[0][0]
    for (x, wide), part in zip(bars, parts):
        assert abs(x - at) < 0.5 and abs(wide - max(1, part["time_ns"] * scale)) < 0.5, part
        at += part["time_ns"] * scale


def search_and_click(tab):
    """The circles on the page while it searches, and the point of the plan that a click shows: its
    timeline with its memory over time, and its differences from the job, key by key."""
    tab.ask("window.seen = []; const told = showProgress; showProgress = p => { told(p);"
            " seen.push($('front').querySelectorAll('circle').length); }; $('search').click()")
    until(tab, "$('plans').querySelectorAll('tbody tr').length > 3 && $('stop').disabled", "plans")
    seen = tab.ask("window.seen")
    assert seen and seen[-1] >= max(1, seen[0]), seen
    place = tab.ask("found.plans.findIndex(p => p.plan.schedule !== '1f1b' || p.plan.tp !== 4)")
    assert place >= 0
    tab.ask(f"$('front').querySelectorAll('circle')[{place}].dispatchEvent("
            "new MouseEvent('click', {bubbles: true}))")
    until(tab, "!$('shown').hidden && $('page').srcdoc.includes('id=\"planned\"')", "the timeline")
    until(tab, "!!document.getElementById('otherwise')", "what it does otherwise")
    assert tab.ask("planned.plan").endswith(f"plan-{place + 1}.json")
    assert f"plan-{place + 1}.json" in tab.ask("$('forecast-by').textContent")
    held = tab.ask("JSON.parse($('page').srcdoc.split('id=\"planned\">')[1].split('</scr')[0])"
                   ".memory.map(samples => samples.length)")
    ranks = tab.ask(f"found.plans[{place}].plan.pp")
    assert len(held) == ranks and min(held) > 2, (held, ranks)
    rows = tab.ask("[...$('otherwise').querySelectorAll('tbody tr')].map(r => "
                   "[...r.cells].map(c => c.textContent))")
    plan = tab.ask(f"found.plans[{place}].plan")
    keys = {name.replace(" ", "_"): after for name, _, after in rows}
    assert keys and all(json.loads(after) == plan[key] for key, after in keys.items()
                        if key in plan and after != "not said"), (keys, plan)
    flags = tab.ask("[...document.querySelectorAll('#flags tbody tr')].map("
                    "r => [...r.cells].map(c => c.textContent))")
    assert flags and all(name.startswith("--") and was != now for name, was, now in flags), flags


def dropped_log(tab):
    """A log that is dropped where figures are compared is compared."""
    tab.ask("$('back').hidden || $('back').click()")
    until(tab, "$('of').textContent.includes('today')", "the job again")
    lines = [f" iteration {i:8d}/ 100 | elapsed time per iteration (ms): 5000.0 | "
             "global batch size: 128 |" for i in range(1, 31)]
    drop(tab, "job.log", "\n".join(lines) + "\n", "$('measuring')")
    until(tab, "$('difference').textContent.includes('Measured 5.000 s')", "the log")
    assert tab.ask("$('causes').querySelectorAll('tbody tr').length") > 2


def live_run(tab, folder):
    """A run's row is there while it trains, its steps grow, and at its end it says so."""
    (folder / "mini.json").write_text(
        (source / "tools/examples/models/gpt2-mini.json").read_text())
    subprocess.run([weir, "-q", "plan", "mini.json", "-K", "1", "-M", "2", "--seq-length", "32",
                    "-o", "mine.json"], cwd=folder, check=True, capture_output=True, timeout=60)
    row = ("([...$('runs').querySelectorAll('tbody tr')].map(r => [...r.cells].map(c => "
           "c.textContent)).find(r => r[0] === 'mine') || [])")
    training = subprocess.Popen([weir, "-q", "run", "mine.json", "--steps", "60", "-o", "mine"],
                                cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    steps = set()
    while training.poll() is None:
        said = tab.ask(row)
        if said and said[2] == "training" and said[3]:
            steps.add(int(said[3].split(" of ")[0]))
        time.sleep(0.2)
    assert training.returncode == 0
    until(tab, f"{row}[2] === 'ended'", "its end")
    run = json.loads((folder / "mine/run.json").read_text())
    said = tab.ask(row)
    assert len(steps) >= 2, steps
    assert said[4] == f"{run['steps'][-1]['loss']:.4f}", said
    # G = 2 samples of 32 tokens a step; the forecast has its basis beside it, and its error.
    rate = float(said[7].replace(",", ""))
    assert abs(rate * run["step_time_s"] / 64 - 1) < 1e-3, (said, run["step_time_s"])
    assert "(builtin)" in said[8] and said[9].endswith("%"), said


with tempfile.TemporaryDirectory() as name:
    served, tab = Served(weir, pathlib.Path(name)), browser.Browser()
    try:
        tab.show(served.link, 1400, "light")
        until(tab, "!!document.getElementById('runs')", "the page")
        memory(tab, dropped_job(tab, served))
        waterfall(tab, served)
        search_and_click(tab)
        dropped_log(tab)
        live_run(tab, pathlib.Path(name))
        assert not tab.complaints, tab.complaints
    finally:
        tab.close()
        served.end()
print("serve: pictures by their numbers, and what a hand does")
