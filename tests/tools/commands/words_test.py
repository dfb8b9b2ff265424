#!/usr/bin/env python3
"""Words have one sense wherever they stand: what a rank has in flight is counted in micro-batches
of a whole rank, a gain is samples in the same time over the plan's own, a schedule that allows one
v has it, the letters of a plan's name are told beside the first table of them, and no folder of
this machine stands where a name does.
Usage: words_test.py SOURCE_DIR WEIR"""
# SPDX-License-Identifier: Apache-2.0
import html
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

source, weir = pathlib.Path(sys.argv[1]).resolve(), os.path.abspath(sys.argv[2])
CHAIN = ("name,kind,parameters,f_ms,i_ms,w_ms,activation_bytes,boundary_bytes,count\n"
         "l,x,1000,1,1,1,4096,64,16\n")
GPT = source / "tools/examples/models/gpt2-mini.json"
EQUAL = ("--uniform", "F=1ms,I=1ms,W=1ms,latency=0s")


def run(*words, code=0, quiet=True):
    done = subprocess.run([weir, *(["-q"] if quiet else []), *map(str, words)],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == code, (words, done.returncode, done.stderr)
    return done


def said(*words):
    return run(*words).stdout


def told(*words):
    return json.loads(said("--json", *words))


def last_column(text, head):
    """The numbers below a head that stands at the end of its line, a row a rank."""
    lines = text.splitlines()
    begun = next(i for i, line in enumerate(lines) if line.endswith(head))
    return [float(re.match(r" +\d+ .* ([\d.]+)$", line)[1])
            for line in lines[begun + 1:begun + 5]]


def in_flight():
    """ZB-V holds at most 2K micro-batches of its half ranks, K of whole ones, from M = 2K on: 4 of
    K = 4, not 8. Interleaved 1F1B's v = 2 are halves too; where v is 1 both counts are one."""
    for name, v, most in (("zb-v", 2, 4), ("1f1b", 1, 4), ("interleaved-1f1b", 2, None)):
        run("plan", "chain.csv", "-K", 4, "-v", v, "-M", 12, "--schedule", name, "-o", "p.json")
        ranks = [rank["peak_in_flight"] for rank in told("simulate", "p.json")["ranks"]]
        whole = last_column(said("simulate", "p.json"), "in flight")
        assert whole == [stages / v for stages in ranks], (name, whole, ranks)
        assert most is None or max(whole) == most, (name, whole)
        drawn = f"at most {max(whole):g} in flight on a rank"
        text = said("schedule", name, "-K", 4, "-v", v, "-M", 12, *EQUAL)
        assert drawn in text.splitlines()[0], (drawn, text.splitlines()[0])
        row, = told("schedule", name, "1f1b", "-K", 4, "-v", v, "-M", 12, *EQUAL)["schedules"][:1]
        assert row["in_flight"] == max(whole), (name, row["in_flight"], whole)
        # Below a timeline the axis counts as the texts do: its numbers are the ones that end there.
        said("schedule", name, "-K", 4, "-v", v, "-M", 12, *EQUAL, "--svg", "a.svg", "--memory")
        drawn = pathlib.Path("a.svg").read_text()
        axis = [float(number) for group in re.findall(r'text-anchor="end">(.*?)</g>', drawn, re.S)
                for number in re.findall(r">([\d.]+)</text>", group)]
        assert "micro-batches in flight" in drawn
        assert max(whole) / 2 < max(axis) <= max(whole), (name, axis, whole)


def gain():
    """Of each change, of one that makes the mini-batch larger too: G'/step' over G/step, less 1, to
    the digits that are written; in JSON, in the tables of explain and sweep, and on the page."""
    run("plan", GPT, "-K", 2, "-M", 4, "-o", "gain.json")
    step = told("simulate", "gain.json")["step_time_s"]
    rows = [row for row in told("explain", "gain.json")["what_if"] if not row["refused"]]
    assert len(rows) > 10, rows
    assert any(row["gain"] > 0.01 for row in rows) and any(row["gain"] < -0.01 for row in rows)
    larger = 0
    for row in rows:
        samples = row["plan"]["microbatches"] * row["plan"]["micro_batch_size"]
        larger += samples > 4
        assert abs((samples / row["step_time_s"]) / (4 / step) - 1 - row["gain"]) < 1e-6, row
    assert larger > 0, rows
    by_name = {f"{row['choice']}: {row['to']}": row["gain"] for row in rows}
    table = said("explain", "gain.json").split("what one change would bring")[1]
    assert table.split()[0] == "gain", table[:200]
    for name, worth in by_name.items():
        row = re.escape(name) + " +" + re.escape(f"{100 * worth:+.1f}%") + " "
        assert re.search("^" + row, table, re.M), (name, worth, table)
    # The best plan of a search of one is that plan; its page says what gain is.
    said("sweep", GPT, "-K", 2, "-M", 4, "--schedule", "1f1b", "--report", "gain.html")
    page = pathlib.Path("gain.html").read_text()
    assert "<th>more samples/s</th>" in page
    cells = re.findall(r"<tr><td>([^<]*)</td><td>([-+][\d.]+) %</td>", page)
    assert len(cells) == 10, cells  # the most that a page lists
    for name, worth in cells:
        assert worth == f"{100 * by_name[html.unescape(name)]:+.1f}", (name, worth, by_name)
    # What would bring a plan in use towards the best one is counted alike.
    searched = told("sweep", GPT, "-K", 2, "-M", 4, "--baseline", "gain.json", "--explain")
    for row in searched["explained"]["towards_best"]:
        if not row["refused"]:
            samples = row["plan"]["microbatches"] * row["plan"]["micro_batch_size"]
            assert abs((samples / row["step_time_s"]) / (4 / step) - 1 - row["gain"]) < 1e-6, row


def one_v():
    """Each published schedule with one v has it without -v, in `plan` and in `schedule`; another is
    refused, where a list asks for more than that schedule alone its own is taken."""
    listed = re.findall(r"^  (\S+) +v (\d+|any) ", said("help", "schedules"), re.M)
    assert len(listed) >= 16, listed
    assert {name for name, v in listed if v == "2"} >= {"zb-v", "v-half", "v-min", "dualpipev"}
    for name, v in listed:
        if v == "any":
            continue
        run("plan", GPT, "-K", 4, "-M", 8, "--schedule", name, "-o", "v.json")
        assert json.loads(pathlib.Path("v.json").read_text())["vpp"] == int(v), name
        stages = said("schedule", name, "-K", 4, "-M", 8).split(": K = 4, ")[1].split(" stages")[0]
        assert int(stages) == 4 * int(v), (name, stages)
        other = 3 - int(v)
        run("plan", GPT, "-K", 4, "-v", other, "-M", 8, "--schedule", name, code=2)
        row = told("schedule", name, "interleaved-1f1b", "-K", 4, "-v", other, "-M", 8)
        assert row["schedules"][0]["vpp"] == int(v), (name, row["schedules"][0])


def legend():
    """The letters of the names in a table are told once beside it: on stderr, where -q keeps it,
    and below the table of a page."""
    words = ("sweep", "chain.csv", "-K", 2, "-v", "1,2", "-M", 4, "--schedule",
             "1f1b,interleaved-1f1b")
    loud = run(*words, "--report", "named.html", quiet=False)
    lines = [line for line in loud.stderr.splitlines() if "plans in short: " in line]
    assert len(lines) == 1, loud.stderr
    for letter in ("K ranks of the pipeline", "v stages a rank", "M micro-batches a step",
                   "b samples a micro-batch", "in brackets the layers"):
        assert letter in lines[0], (letter, lines)
    assert "zero" not in lines[0] and "tp " not in lines[0], lines
    assert "plans in short" not in run(*words).stderr
    page = pathlib.Path("named.html").read_text()
    assert page.count("Plans in short: K ranks of the pipeline") == 1
    assert page.index("<th>over the best</th>") < page.index("Plans in short: ")


def one_plan_is_a_sentence():
    """The page of a search that lists one plan of one rank has no table of plans, of idle time or
    of memory: what they would say stands above, or in a sentence."""
    said("sweep", "chain.csv", "-K", 1, "-M", 4, "--schedule", "1f1b", "--report", "one.html")
    page = pathlib.Path("one.html").read_text()
    assert "<p>No other is listed; its figures stand above.</p>" in page
    assert "<p>No rank is ever idle: the bubble is 0.</p>" in page
    assert "<p>The one rank holds " in page
    for head in ("<th>plan</th>", "<th>rank</th>", "<th>idle, of all"):
        assert head not in page, head


def no_folders():
    """Models, plans, clusters, costs and traces of a folder far away are called by their names; the
    line by which a page was made has what was typed."""
    far = pathlib.Path("far/away").absolute()
    far.mkdir(parents=True)
    model, cluster, plan = far / "mine.json", far / "mine-cluster.json", far / "plan.json"
    model.write_text(GPT.read_text())
    own = json.loads((source / "tools/examples/clusters/dgx-h100.json").read_text())
    cluster.write_text(json.dumps({**own, "name": "mine"}))
    run("plan", model, "-K", 2, "-M", 4, "-o", plan)
    run("calibrate", "--cluster", cluster, "--measured", f"{plan}=1s", "-o", far / "costs.json")
    run("run", plan, "--backend", "synthetic", "--steps", 2, "-o", far / "out")
    of_plan = ("--cluster", cluster, "--costs", far / "costs.json")
    run("sweep", model, "-K", 2, "-M", "4,8", *of_plan, "--baseline", plan, "--dtype", "fp32",
        "--report", far / "sweep.html")
    run("page", plan, "--trace", far / "out/measured.json", "-o", far / "page.html")
    run("page", plan, *of_plan, "-o", far / "corrected.html")
    run("reports", far, "-o", far / "index.html")
    here = str(far.parent.parent)
    for name in ("sweep", "page", "corrected", "index"):
        page = (far / f"{name}.html").read_text()
        made = re.search(r"<dt>command</dt><dd>.*?</dd>", page)
        assert made and here in made[0], (name, made)  # the check sees what it looks for
        rest = page.replace(made[0], "")
        assert here not in rest, (name, rest[rest.index(here) - 80:][:200])
    page = (far / "sweep.html").read_text()
    assert "<h1>weir sweep: mine.json</h1>" in page and "Machine: mine." in page
    assert "measured.json" in (far / "page.html").read_text()


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    pathlib.Path("chain.csv").write_text(CHAIN)
    for part in (in_flight, gain, one_v, legend, one_plan_is_a_sentence, no_folders):
        part()
print("words: one sense each")
