#!/usr/bin/env python3
"""`weir reports`: one row a report, the newest first, with the figures that the report's own page
says of itself; names that need an escape lead to their files; damaged reports, files that are none,
links, pipes and folders that are deep down are passed over. With PICTURES in headless Chromium,
where there is one: each row's link opens its report, on a telephone and on a desk, light and dark.
Usage: reports_test.py SOURCE_DIR WEIR [PICTURES]"""
# SPDX-License-Identifier: Apache-2.0
import html
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.parse

import browser
from looks import keep, look

weir = os.path.abspath(sys.argv[2])
pictures = pathlib.Path(sys.argv[3]).absolute() if len(sys.argv) > 3 else None
TINY = {"model_type": "gpt2", "n_embd": 16, "n_head": 2, "n_layer": 3, "vocab_size": 32,
        "n_positions": 8}
# Each with the day on which it was made, in seconds since 1970: 23 to 25 November 2026.
DAYS = {"tune": 1795392000, "sweep": 1795478400, "evaluate": 1795564800}
ODD = "a 'b' <i>&amp; 100% ä:#?"  # of a folder: text wherever it stands


def run(*words, code=0, day=0):
    done = subprocess.run([weir, "-q", *map(str, words)], capture_output=True, text=True,
                          env={**os.environ, "SOURCE_DATE_EPOCH": str(day)})
    assert done.returncode == code, (words, done.stderr)
    return done


def make():
    """Three reports of three kinds in a folder that has much else, too."""
    pathlib.Path("runs").mkdir()
    pathlib.Path("tiny.json").write_text(json.dumps(TINY))
    run("tune", "tiny.json", "--global-batch-size", 4, "--rounds", 1, "--steps", 1, "--plans", 2,
        "-o", f"runs/{ODD}", day=DAYS["tune"])
    run("sweep", "tiny.json", "-K", "1,2", "-M", "4", "--report", "runs/deep/er/found.html",
        day=DAYS["sweep"])
    run("evaluate", "tiny.json", "--global-batch-size", 4, "--fit", 1, "--interval", 9,
        "--held-out", 2, "--rounds", 1, "-o", "runs/judged", day=DAYS["evaluate"])
    run("page", "-o", "runs/page.html")  # a page, and no report
    pathlib.Path("runs/plain.html").write_text("<p>a page of another's</p>")
    os.mkfifo("runs/pipe.html")
    os.symlink("deep/er/found.html", "runs/link.html")
    os.symlink(".", "runs/round")
    far = pathlib.Path("runs/1/2/3/4/5/6")
    far.mkdir(parents=True)
    (far / "report.html").write_text(pathlib.Path("runs/deep/er/found.html").read_text())


def as_each_says():
    """The rows are the reports' own figures."""
    rows = json.loads(run("--json", "reports", "runs", "-o", "runs/reports.html").stdout)["reports"]
    assert [row["command"] for row in rows] == ["evaluate", "sweep", "tune"], rows
    assert [row["date"] for row in rows] == ["2026-11-25", "2026-11-24", "2026-11-23"], rows
    assert [row["name"] for row in rows] == ["judged", "deep/er/found", ODD], rows
    judged, found, tuned = rows
    told = json.loads(pathlib.Path(f"runs/{ODD}/tune.json").read_text())["plans"][0]
    assert tuned["plan"] == told["plan"], (tuned, told)
    assert tuned["forecast_step_time_s"] == told["predicted_step_time_s"]
    assert tuned["measured_step_time_s"] == told["measured_step_time_s"]
    error = told["predicted_step_time_s"] / told["measured_step_time_s"] - 1
    assert abs(tuned["error"] - error) < 1e-9, (tuned, error)
    said = run("--json", "sweep", "tiny.json", "-K", "1,2", "-M", "4").stdout
    best = json.loads(said)["plans"][0]
    assert found["forecast_step_time_s"] == best["forecast"]["step_time_s"], (found, best)
    assert found["measured_step_time_s"] is None and found["error"] is None, found
    accuracy = json.loads(pathlib.Path("runs/judged/evaluation.json").read_text())
    assert judged["error"] == accuracy["median_abs_error"] and judged["plan"] is None, judged
    # Given twice, or within another folder, it is one row.
    twice = json.loads(run("--json", "reports", "runs", "runs/judged", "runs/judged/report.html",
                           "-o", "twice.html").stdout)
    assert [row["name"] for row in twice["reports"]] == [f"runs/{row['name']}" for row in rows]
    return rows


def leads_to_each(rows):
    """Its addresses are the files', by RFC 3986; its texts are text."""
    page = pathlib.Path("runs/reports.html").read_text()
    links = re.findall(r'<a href="([^"]*)">([^<]*)</a>', page)
    assert [html.unescape(name) for _, name in links] == [row["name"] for row in rows], links
    for (link, _), row in zip(links, rows):
        path = pathlib.Path("runs") / urllib.parse.unquote(html.unescape(link))
        assert path.samefile(row["file"]), (link, row)
    assert "<i>" not in page and ">3 reports.<" in page


def passes_over():
    """What is damaged is said and left out; what is given and no report is refused in a line."""
    text = pathlib.Path("runs/deep/er/found.html").read_text()
    damaged = pathlib.Path("runs/damaged")
    damaged.mkdir()
    (damaged / "cut.html").write_text(text[:text.index('"model"')])
    (damaged / "other.html").write_text(text.replace("weir.report/1", "weir.report/9"))
    (damaged / "bytes.html").write_bytes(text.replace("tiny.json", "\udcff").encode(
        errors="surrogateescape"))
    # Its card is whole, and its page ends before or within its last words.
    (damaged / "short.html").write_text(text[:text.index("</script>") + 3000])
    (damaged / "last.html").write_text(text.rstrip()[:-1])
    (damaged / "day.html").write_text(text.replace("2026-11-24", "9999-99-99"))
    done = subprocess.run([weir, "reports", "runs", "-o", "again.html"], capture_output=True,
                          text=True)
    assert done.returncode == 0 and done.stderr.count("left out: ") == 6, done.stderr
    assert "short.html: is cut short: its page has no end" in done.stderr, done.stderr
    assert "last.html: is cut short: its page has no end" in done.stderr, done.stderr
    assert "day.html: date: expected a day, as 2026-11-23" in done.stderr, done.stderr
    assert "3 reports." in done.stdout and "again.html" in done.stdout, done.stdout
    for words, code, says in (
            (["runs/plain.html"], 3, "plain.html: expected one of the pages"),
            (["runs/damaged"], 3, "runs/damaged: no report here"),
            (["nowhere"], 3, "nowhere: cannot be read"),
            (["runs/pipe.html"], 3, "pipe.html: is not a regular file"),
            (["runs", "-o", "runs/judged/report.html"], 2, "would be written over"),
            (["runs", "-o", "runs/damaged/cut.html"], 2, "would be written over"), ([], 2, "")):
        refused = run("reports", *words, code=code)
        assert says in refused.stderr and refused.stderr.count("\n") == 1, refused.stderr
        assert "1 report" not in refused.stdout
    assert "</html>" in pathlib.Path("runs/judged/report.html").read_text()


def index_of(*words, page, at="."):
    """The rows, and where the page's links lead, of what is called in the folder `at`."""
    done = subprocess.run([weir, "-q", "--json", "reports", *words, "-o", page], cwd=at,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    page = pathlib.Path(at) / page
    leads = [page.parent / os.fsdecode(urllib.parse.unquote_to_bytes(html.unescape(link)))
             for link in re.findall(r'<a href="([^"]*)">', page.read_text())]
    return json.loads(done.stdout)["reports"], leads


def wherever_the_page_is():
    """Links lead to the reports from a page beside, above and in another folder."""
    pathlib.Path("x").mkdir()
    report = pathlib.Path("runs/judged/report.html")
    for page, at, name in (("../x/index.html", "runs", "../runs/judged"),
                           ("../index.html", "runs", "runs/judged"),
                           ("deeper/../../index.html", "runs", "runs/judged"),
                           ("index.html", "runs/judged", "report"),
                           ("1/index.html", "runs/judged", "../report.html")):
        (pathlib.Path("runs/judged") / "1").mkdir(exist_ok=True)
        (pathlib.Path("runs") / "deeper").mkdir(exist_ok=True)
        given = os.path.relpath(report, at)
        rows, leads = index_of(given, page=page, at=at)
        assert [row["name"] for row in rows] == [name], (page, rows)
        assert leads[0].samefile(report), (page, leads)
    # A second time: its own page is none of the reports, and is written anew.
    for _ in range(2):
        assert len(index_of("runs/judged", page="runs/judged/all.html")[0]) == 1


def whatever_the_names_are():
    """Names that are no UTF-8 or steer a terminal are shown as what they are; what two would be
    called is written out."""
    text = pathlib.Path("runs/deep/er/found.html").read_text()
    odd = pathlib.Path("odd")
    names = (os.fsdecode(b"b\xff.html"), "c\x1b[1m\nd.html", "e.html", "e/report.html")
    for name in names:
        (odd / name).parent.mkdir(parents=True, exist_ok=True)
        (odd / name).write_text(text)
    rows, leads = index_of("odd", page="odd.html")
    assert [row["name"] for row in rows] == ["odd/b\\xff", "odd/c\x1b[1m\nd", "odd/e.html",
                                             "odd/e/report.html"], rows
    assert rows[0]["file"] == "odd/b\\xff.html" and rows[2]["file"] == "odd/e.html", rows
    assert all(lead.samefile(odd / name) for lead, name in zip(leads, names)), leads
    said = run("reports", "odd", "-o", "odd.html").stdout
    assert "odd/c\\x1b[1m\\x0ad " in said and "\x1b" not in said, said
    assert "\x1b" not in pathlib.Path("odd.html").read_text()


def as_a_median():
    """Of 1, -2 and 5 % the median without signs is 2 %; an evaluation is not counted with them.
    Figures that mean nothing are of a damaged report."""
    text = pathlib.Path(f"runs/{ODD}/report.html").read_text()
    error = re.compile(r'"error":[^},]+')
    assert len(error.findall(text)) == 1
    many = pathlib.Path("many")
    many.mkdir()
    for number, share in enumerate((0.01, -0.02, 0.05)):
        (many / f"{number}.html").write_text(error.sub(f'"error":{share}', text))
    said = run("reports", "many", "runs/judged", "-o", "many.html").stdout
    assert ("4 reports. The forecast of the plan to use was off by 2.0 % in the median of the 3 "
            "that measured it.") in said, said
    for key, value in (("error", "1e300"), ("error", "-2"), ("forecast_step_time_s", "1e300"),
                       ("measured_step_time_s", "-1")):
        (many / "wild.html").write_text(re.sub(f'"{key}":[^,}}]+', f'"{key}":{value}', text))
        refused = run("reports", "many/wild.html", "-o", "many.html", code=3)
        assert f"wild.html: {key}: " in refused.stderr, refused.stderr


def in_a_browser(rows):
    tab = browser.Browser()
    try:
        page = pathlib.Path("runs/reports.html").absolute().as_uri()
        texts = ["2026-11-23", "weir tune", "tiny", "3 reports.", "How this page was made"]
        look(tab, page, texts)
        keep(tab, page, pictures, "reports")
        for place, row in enumerate(rows):
            tab.show(page, 1400, "light")
            tab.show(tab.ask(f"document.querySelectorAll('td a')[{place}].href"), 1400, "light")
            title = tab.ask("document.title")
            assert f"weir {row['command']}: " in title, title
        assert not tab.complaints, tab.complaints
    finally:
        tab.close()


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    make()
    listed = as_each_says()
    leads_to_each(listed)
    passes_over()
    wherever_the_page_is()
    whatever_the_names_are()
    as_a_median()
    if pictures and not browser.find():
        print("skipped: there is no Chromium")
        sys.exit(77)
    if pictures:
        in_a_browser(listed)
print("reports: in order")
