#!/usr/bin/env python3
"""`weir serve` in headless Chromium, by what a person does: paste a job, read what was read and
what was not, forecast, ask where the step goes, press a change, search and choose a plan, compare a
log; at 400 and at 1400 pixels, light and dark, without a complaint of the page.
Usage: browser_test.py SOURCE_DIR WEIR [PICTURES]"""
# SPDX-License-Identifier: Apache-2.0
import base64
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
weir = os.path.abspath(sys.argv[2])
pictures = pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else None
PATIENCE_S = 60


def until(tab, script, what):
    begun = time.monotonic()
    while time.monotonic() - begun < PATIENCE_S:
        if tab.ask(script):
            return
        wrong = tab.ask("document.getElementById('wrong').textContent")
        assert not wrong, f"{what}: {wrong}"
        time.sleep(0.1)
    raise AssertionError(f"{what}: {script}")


def text(tab, name):
    return tab.ask(f"document.getElementById({json.dumps(name)}).textContent")


def press(tab, name):
    assert tab.ask(f"!document.getElementById({json.dumps(name)}).disabled"), name
    tab.ask(f"document.getElementById({json.dumps(name)}).click()")


def keep(tab, name):
    """A picture of the whole page, for who looks at it."""
    if not pictures:
        return
    size = tab.call("Page.getLayoutMetrics")["cssContentSize"]
    shot = tab.call("Page.captureScreenshot", captureBeyondViewport=True,
                    clip={**size, "height": min(size["height"], 6000), "scale": 1})
    (pictures / f"{name}.png").write_bytes(base64.b64decode(shot["data"]))


def fits_the_window(tab, width):
    wide = tab.ask("document.documentElement.scrollWidth")
    assert wide <= width, f"{wide} pixels wide at {width}"


def costs(tab, served):
    """Of the cluster with a price: hours and money as the command's JSON has them."""
    asked = {"plan": tab.ask("job.plan"), "cluster": "priced.json", "gpus": 16,
             "train-tokens": 2e12}
    told = served.ask("simulate", asked)["result"]["training_cost"]
    # 2 USD an hour of each device.
    assert abs(told["training"]["price"] / told["training"]["gpu_hours"] - 2) < 1e-9, told
    tab.ask("document.getElementById('cluster').value = 'priced.json';"
            "document.getElementById('train-tokens').value = 2e12")
    press(tab, "read")
    until(tab, "document.getElementById('facts').textContent.includes('USD')", "costs")
    pairs = dict(tab.ask("[...document.querySelectorAll('#facts div')].map("
                         "d => [...d.children].map(c => c.textContent))"))
    for name, amount in (("a billion tokens", told["billion_tokens"]),
                         ("2,000,000,000,000 tokens", told["training"])):
        hours, price = (float(word.replace(",", "").split()[0])
                        for word in pairs[name].split(", ")[:2])
        assert abs(hours / amount["gpu_hours"] - 1) < 1e-3, (pairs, amount)  # of four digits
        assert abs(price / amount["price"] - 1) < 1e-3, (pairs, amount)
    tab.ask("document.getElementById('cluster').value = 'dgx-h100';"
            "document.getElementById('train-tokens').value = ''")
    press(tab, "read")
    until(tab, "!document.getElementById('facts').textContent.includes('USD')", "no price")
    until(tab, "!document.getElementById('read').disabled", "its forecast")
    assert "device-hours" in pairs["a billion tokens"], pairs


def person(tab, served, folder, width, scheme):
    tab.show(served.link, width, scheme)
    until(tab, "!!document.getElementById('runs')", "the page")
    tab.ask(f"document.getElementById('text').value = {json.dumps(SCRIPT)};"
            "document.getElementById('cluster').value = 'dgx-h100';"
            "document.getElementById('gpus').value = 16")
    press(tab, "read")
    until(tab, "document.getElementById('facts').children.length > 3", "the forecast")
    assert "foo-bar 3" in text(tab, "arguments"), text(tab, "arguments")
    told = served.ask("simulate", {"plan": tab.ask("job.plan"), "cluster": "dgx-h100", "gpus": 16})
    step = f"{told['result']['step_time_s']:.3f} s"
    assert step in text(tab, "facts"), (step, text(tab, "facts"))
    costs(tab, served)
    press(tab, "why")
    until(tab, "document.querySelectorAll('#changes button').length > 2", "what would help")
    fits_the_window(tab, width)
    keep(tab, f"explained-{width}-{scheme}")
    change = tab.ask("document.querySelector('#changes button').textContent")
    tab.ask("document.querySelector('#changes button').click()")
    until(tab, f"document.getElementById('of').textContent.includes({json.dumps('changed')})",
          change)
    until(tab, "!!document.getElementById('otherwise')", "what it does otherwise")
    press(tab, "back")
    until(tab, "document.getElementById('of').textContent.includes('today')", "the job again")
    press(tab, "search")
    until(tab, "document.querySelectorAll('#plans tbody tr').length > 3", "the search")
    points = tab.ask("document.querySelectorAll('#front circle').length")
    assert points == tab.ask("found.plans.length") + 1, points  # and the plan of today
    tab.ask("document.querySelector('#plans tbody tr').click()")
    until(tab, "!document.getElementById('shown').hidden", "the timeline")
    best = tab.ask("found.plans[0].forecast.step_time_s")
    assert f"{best:.3f} s" in text(tab, "facts"), (best, text(tab, "facts"))
    time.sleep(1)  # the frame draws
    fits_the_window(tab, width)
    keep(tab, f"searched-{width}-{scheme}")
    # A job that is read ends the search of the one before it, whose plans are not this one's.
    press(tab, "search")
    press(tab, "read")
    until(tab, "!document.getElementById('read').disabled", "the job read again")
    assert tab.ask("document.getElementById('stop').disabled && found === null"), "it searches on"
    until(tab, "document.getElementById('of').textContent.includes('today')", "the job again")
    tab.ask("document.getElementById('figure').value = '5s'")
    press(tab, "measure")
    until(tab, "document.querySelectorAll('#causes tbody tr').length > 2", "causes")
    assert "Measured 5.000 s" in text(tab, "difference"), text(tab, "difference")
    # By what was measured the forecasts are corrected, the search's too; and back again.
    builtin = text(tab, "facts")
    press(tab, "correct")
    until(tab, "document.getElementById('facts').textContent.includes('anchored')", "corrected")
    assert "5.000 s" in text(tab, "facts"), text(tab, "facts")
    assert tab.ask("document.querySelectorAll('#factors tbody tr').length") == 4
    fits_the_window(tab, width)
    keep(tab, f"corrected-{width}-{scheme}")
    press(tab, "search")
    until(tab, "document.querySelectorAll('#plans tbody tr').length > 3", "the corrected search")
    assert tab.ask("found.plans.every(one => one.forecast.basis === 'anchored')"), "built-in"
    press(tab, "uncorrect")
    until(tab, "document.getElementById('corrected').hidden", "built-in costs")
    until(tab, f"document.getElementById('facts').textContent === {json.dumps(builtin)}", "again")
    # A run's trace is measured by its steps, and its timeline stands beside the forecast's.
    dropped = [{"name": name, "text": (folder / "run" / name).read_text()}
               for name in ("plan.json", "gpt2-mini.json", "out/measured.json")]
    tab.ask("document.getElementById('cluster').value = document.getElementById('gpus').value = '';"
            "document.getElementById('text').value = ''; const given = names => {"
            " const held = new DataTransfer();"
            f" for (const one of {json.dumps(dropped)}) if (names.includes(one.name))"
            "  held.items.add(new File([one.text], one.name.split('/').pop()));"
            " return held.files; };"
            "document.getElementById('files').files = given(['plan.json', 'gpt2-mini.json']);"
            "window.traced = given(['out/measured.json']); null")
    press(tab, "read")
    until(tab, "document.getElementById('summary').textContent.includes('K2 M4')", "the plan")
    until(tab, "!document.getElementById('read').disabled", "its forecast")
    tab.ask("document.getElementById('log').files = window.traced;"
            "document.getElementById('log').dispatchEvent(new Event('change'))")
    until(tab, "document.getElementById('page').srcdoc.includes('measured.json')", "the trace")
    assert "Measured" in text(tab, "difference"), text(tab, "difference")
    time.sleep(1)  # the frame draws
    fits_the_window(tab, width)
    keep(tab, f"traced-{width}-{scheme}")
    # A mistake is said, and the page goes on.
    tab.ask("document.getElementById('cluster').value = 'no-such-cluster'")
    press(tab, "read")
    begun = time.monotonic()
    while not text(tab, "wrong") and time.monotonic() - begun < PATIENCE_S:
        time.sleep(0.1)
    assert "no-such-cluster" in text(tab, "wrong"), text(tab, "wrong")
    # The answer that is an error is one that the console names, too.
    tab.complaints = [line for line in tab.complaints if "400 (Bad Request)" not in line]
    assert not tab.complaints, tab.complaints


def run_in(folder):
    """A small plan, its model, and the trace of three steps."""
    folder.mkdir()
    (folder / "gpt2-mini.json").write_text(
        (pathlib.Path(sys.argv[1]) / "tools/examples/models/gpt2-mini.json").read_text())
    for words in (["plan", "gpt2-mini.json", "-K", "2", "-M", "4", "-o", "plan.json"],
                  ["run", "plan.json", "--backend", "synthetic", "--steps", "4", "--warmup", "1",
                   "-o", "out"]):
        subprocess.run([weir, "-q", *words], cwd=folder, check=True, capture_output=True,
                       timeout=PATIENCE_S)


def main():
    with tempfile.TemporaryDirectory() as around:
        folder = pathlib.Path(around)
        run_in(folder / "run")
        cluster = json.loads((pathlib.Path(sys.argv[1]) / "tools/examples/clusters/dgx-h100.json")
                             .read_text())
        (folder / "priced.json").write_text(json.dumps({**cluster, "price_per_gpu_hour": "2 USD"}))
        served, tab = Served(weir, folder), browser.Browser()
        try:
            for width, scheme in ((1400, "light"), (400, "light"), (1400, "dark")):
                person(tab, served, folder, width, scheme)
                print(f"{width} pixels, {scheme}: a job, its forecast, a search, a figure")
        finally:
            tab.close()
            assert served.end() == 130


main()
