#!/usr/bin/env python3
"""`weir page` in headless Chromium: seeded settings, given by the link's hash as a person would get
them, are shown as `weir schedule --json` says, to the nanosecond; the page fits a telephone and a
desk, is light and dark, runs without a complaint and loads nothing; sliders, keys, a file of one's
own and the link work; a frame at K = 16, M = 64 takes less than one of 60 a second.
Usage: browser_test.py SOURCE_DIR WEIR [--long]"""
# SPDX-License-Identifier: Apache-2.0
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.parse

sys.path.insert(0, str(pathlib.Path(sys.argv[1]) / "tests/report"))
import browser
from settings import ASK, differences, expected, settings

if not browser.find():
    print("skipped: no Chromium here (Debian: chromium)")
    sys.exit(77)
weir, long = sys.argv[2], "--long" in sys.argv
COUNT = 240 if long else 64  # of which some are refused by both
FRAME_MS = 1000 / 60
OWN = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"
# A frame's work, timed by itself: the middle of 40, each with another F.
FRAMES = """(() => {
  const times = [];
  for (let i = 0; i < 40; ++i) {
    document.getElementById('F').value = 1 + i / 10;
    read();
    const begun = performance.now();
    render();
    times.push(performance.now() - begun);
  }
  return times.sort((a, b) => a - b)[20];
})()"""


def until(tab, script, what):
    """The page answers within two seconds, as it says by `script`."""
    for _ in range(40):
        if tab.ask(script):
            return
        time.sleep(0.05)
    raise AssertionError(f"{what}: {script}")


def as_hash(setting, **more):
    sizes = {key: setting[key] for key in ("K", "v", "M", "S", "F", "I", "W")}
    words = {"s": setting["name"], "b": "", **sizes, "c": setting["latency"], **more}
    return "#" + urllib.parse.urlencode(words)


def within_sliders(setting):
    """The sliders' steps are tenths of a millisecond from 0.1, latency up to 10."""
    times = {part: max(0.1, round(min(setting[part], 20), 1)) for part in ("F", "I", "W")}
    return {**setting, **times, "latency": round(setting["latency"], 1)}


def compare(tab, url):
    """What the page shows of each setting is what the command says."""
    wrong, equal = [], 0
    for setting in map(within_sliders, settings(48, COUNT)):
        # At once: the page writes its own link a moment after each change.
        tab.ask(f"location.hash = {json.dumps(as_hash(setting))}; fromHash(); show(); render()")
        command = expected(weir, setting)
        if "refused" in command:
            page = {"refused": tab.ask("document.querySelector('#said.refused')?.textContent")}
            page = page if page["refused"] else {}
        else:
            page = tab.ask(f"{ASK}({{...question(), name: state.s}})")
            shown = tab.ask("panels[0].step")
            if shown != command["step"]:
                wrong.append(f"{setting}: shows {shown} ns")
            equal += 1
        wrong += differences(setting, page, command)
    print("\n".join(wrong[:10]))
    assert not wrong, f"{len(wrong)} differences"
    assert equal >= (200 if long else 50), equal
    return equal


def look(tab, url):
    for width in (400, 1400):
        for scheme, light in (("light", True), ("dark", False)):
            tab.show(url, width, scheme)
            until(tab, "document.querySelectorAll('#all tr').length === 17", f"{width} {scheme}")
            wide = tab.ask("document.documentElement.scrollWidth")
            assert wide <= width, f"{width} px, {scheme}: {wide} px"
            back = tab.ask("getComputedStyle(document.body).backgroundColor.match(/\\d+/g)[0]")
            assert (int(back) > 200) == light, (scheme, back)
            # The canvas is painted on the page's colour.
            pixel = tab.ask("[...$('timeline').getContext('2d').getImageData(1, 1, 1, 1).data][0]")
            assert abs(pixel - int(back)) < 3, (scheme, pixel, back)
    assert tab.ask("performance.getEntriesByType('resource').length") == 0, "it loads"


def use(tab, url):
    """Like a person: a slider, the keys, a schedule of one's own, the link."""
    tab.show(url, 1280, "light")
    tab.ask("$('M').value = 16; $('M').dispatchEvent(new Event('input', {bubbles: true}))")
    # 1F1B, K = 4, M = 16, F = I = W = 1 ms: (16 + 3) x 3 ms.
    until(tab, "$('said').textContent.startsWith('1f1b: a step of 57 ms')", "the slider")
    until(tab, "location.hash.includes('M=16')", "the link")
    tab.ask("$('timeline').focus()")
    for key, says in (("ArrowRight", "0F0 on rank 0, 0 ms to 1 ms: begins its rank"),
                      ("ArrowDown", "1F0 on rank 1, 1 ms to 2 ms: waits for 0F0 of rank 0"),
                      ("Enter", "0F0 on rank 0")):
        tab.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key)
        tip = tab.ask("$('tip').textContent")
        assert tip.startswith(says), (key, tip)
    place = json.loads(tab.ask(
        "(() => { $('timeline').scrollIntoView({block: 'center'});"
        "const b = $('timeline').getBoundingClientRect();"
        "return JSON.stringify([b.x + layout.x(4.5e6), b.y + TITLE + 3 * ROW + 5]); })()"))
    tab.mouse("mouseMoved", *place)  # rank 3: F0 from 3 to 4 ms, B0 from 4 to 6
    assert tab.ask("$('tip').textContent").startswith("3B0 on rank 3, 4 ms to 6 ms: follows 3F0"), \
        tab.ask("$('tip').textContent")
    tab.ask(f"takeOwn({json.dumps(OWN)})")
    # K = 2, M = 2: (2 + 1) x 3 ms.
    until(tab, "$('said').textContent.startsWith('your own: a step of 9 ms')", "a file")
    until(tab, "location.hash.includes('csv=')", "the file in the link")
    link = tab.ask("location.href")
    tab.show("about:blank", 1280, "light")
    tab.show(link, 1280, "light")
    until(tab, "$('said').textContent.startsWith('your own: a step of 9 ms')", "the link")
    tab.ask("takeOwn('0F0,0X0')")
    assert "0X0" in tab.ask("$('wrong').textContent")
    # What can be saved: the order comes back as it is, the picture has every action.
    assert tab.ask("toCsv(panels[0].schedule)") == OWN
    assert tab.ask("timelineSvg()").count("<rect") > 8
    assert tab.ask("timesCsv()").splitlines()[1] == "0,your own,0F0,0.000000000,0.001000000"


def show_plan(tab, folder):
    """A plan with its measured trace: K = 2, M = 4, F = 1 and B = 3 ms a stage, so (4 + 1) x 4 ms
    and its messages; the forecast stands above the measurement, and their causes sum."""
    layers = "name,kind,parameters,f_ms,i_ms,w_ms,activation_bytes,boundary_bytes,count\n"
    (folder / "layers.csv").write_text(layers + "l,x,1000,1,2,1,4096,2048,2\n")
    for words in (["plan", "layers.csv", "-K", "2", "-M", "4", "-o", "plan.json"],
                  ["run", "plan.json", "--backend", "synthetic", "--steps", "3", "-o", "out"],
                  ["page", "plan.json", "--trace", "out/measured.json", "-o", "plan.html"]):
        subprocess.run([weir, "-q", *words], check=True, stdout=subprocess.DEVNULL, cwd=folder)
    url = (folder / "plan.html").as_uri()
    for width, scheme in ((400, "light"), (1400, "dark")):
        tab.show(url, width, scheme)
        until(tab, "$('said').textContent.startsWith('1f1b: a step of 20')", "the plan")
        assert tab.ask("!$('measured').hidden && $('waterfall').rows.length > 2")
        assert tab.ask("panels[0].asPlanned && $('uniform').hidden && $('K').disabled")
        assert tab.ask("document.documentElement.scrollWidth") <= width
    said = tab.ask("$('error').textContent")
    assert said.startswith("Forecast: 20"), said
    tab.ask("tellPair({offsetX: LEFT + 2, offsetY: 5})")
    assert tab.ask("$('pair').textContent").startswith("0F0 on rank 0: forecast 1 ms at 0 ms"), \
        tab.ask("$('pair').textContent")
    # Twice the F: (4 + 1) x 5 ms; another order of the same stages; one that places them otherwise.
    tab.ask("$('F').value = 2; $('F').dispatchEvent(new Event('input', {bubbles: true}))")
    until(tab, "$('said').textContent.startsWith('1f1b: a step of 25')", "twice the F")
    assert tab.ask("timedOf('gpipe').step") >= 25e6
    assert "other stages" in tab.ask("(() => { try { timedOf('zb-v'); return ''; }"
                                     "catch (e) { return e.message; } })()")


with tempfile.TemporaryDirectory() as folder:
    page = pathlib.Path(folder) / "page.html"
    subprocess.run([weir, "-q", "page", "-o", page], check=True, stdout=subprocess.DEVNULL)
    tab, url = browser.Browser(), page.as_uri()
    try:
        look(tab, url)
        use(tab, url)
        tab.show(url, 1280, "light")
        equal = compare(tab, url)
        large = as_hash({"name": "zb-v", "K": 16, "v": 2, "M": 64, "S": 1, "F": 1, "I": 1, "W": 1,
                         "latency": 0.5})
        tab.ask(f"location.hash = {json.dumps(large)}; fromHash(); show()")
        frame = tab.ask(FRAMES)
        assert not long or frame < FRAME_MS, f"{frame} ms a frame"
        show_plan(tab, pathlib.Path(folder))
        assert not tab.complaints, tab.complaints
    finally:
        tab.close()
print(f"page: {equal} settings equal; {frame:.1f} ms a frame at K = 16, M = 64")
