"""Seeded settings of a page, what `weir schedule --json` says of each, and the script that asks the
page's own engine for the same."""
# SPDX-License-Identifier: Apache-2.0
import json
import random
import subprocess

ONE_CHUNK = ("gpipe", "1f1b", "1f1b-eager", "zb-h1", "zb-h2", "dualpipe", "seq1f1b", "chimera")
TWO_CHUNKS = ("zb-v", "v-half", "v-min", "dualpipev")
MANY_CHUNKS = ("interleaved-1f1b", "interleaved-zb", "looped-bfs", "hanayo")
SCHEDULES = ONE_CHUNK + TWO_CHUNKS + MANY_CHUNKS

# What the engine makes of one setting, in the shape of `expected` below.
ASK = """(q => {
  const s = q.csv !== undefined ? readCsv(q.csv, 'mine.csv') : makeSchedule(q.name, q);
  if (typeof s === 'string') return {refused: s};
  const t = timeSchedule(s, q);
  return {csv: toCsv(s), step: t.step, span: t.span, bound: t.bound, bubble: t.bubble,
          bubbleSpan: t.bubbleSpan, held: t.held, busy: t.busy,
          idle: t.idle.map(i => [i.fill, i.drain, i.imbalance, i.communication, i.optimizer]),
          timeline: s.orders.map((order, rank) => order.map((a, at) =>
            [nameOf(s, a), t.starts[rank][at], t.ends[rank][at]]))};
})"""


# The same of a plan's own order with its own costs.
ASK_PLAN = """(plan => {
  const t = timePlan(readCsv(plan.csv, 'plan'), plan, {F: 1, I: 1, W: 1, latency: 1});
  return {step: t.step, span: t.span, bound: t.bound, bubble: t.bubble, bubbleSpan: t.bubbleSpan,
          held: t.held, busy: t.busy,
          idle: t.idle.map(i => [i.fill, i.drain, i.imbalance, i.communication, i.host,
                                 i.optimizer]),
          times: t.starts.map((row, rank) =>
            [...row].map((start, at) => [start, t.ends[rank][at]]))};
})"""


def settings(seed, count):
    """Every schedule in turn; times that do and do not divide by v, with and without latency."""
    draw = random.Random(seed)
    for number in range(count):
        name = SCHEDULES[number % len(SCHEDULES)]
        chunks = 1 if name in ONE_CHUNK else 2 if name in TWO_CHUNKS else draw.randint(1, 4)
        if name == "hanayo":
            chunks = draw.choice((2, 4))
        ranks, microbatches = draw.randint(1, 9), draw.randint(1, 24)
        if name in ("dualpipe", "chimera"):
            ranks, microbatches = 2 * draw.randint(1, 4), 2 * draw.randint(1, 12)
        if draw.random() < 0.4:  # where many schedules have another order
            microbatches = max(microbatches, 2 * ranks)
        times = {part: draw.choice((1, 2.5, round(draw.uniform(0.01, 30), 3)))
                 for part in ("F", "I", "W")}
        times["latency"] = draw.choice((0, 0, round(draw.uniform(0, 9), 3)))
        yield {"name": name, "K": ranks, "v": chunks, "M": microbatches,
               "S": draw.randint(1, 4) if name == "seq1f1b" else 1, **times}


def ns(seconds):
    return round(seconds * 1e9)


def expected(weir, setting, source=None):
    """What the command says; of a setting that no schedule has, {"refused": why}."""
    words = [weir, "-q", "schedule", source or setting["name"], "--uniform",
             ",".join(f"{part}={setting[part]}ms" for part in ("F", "I", "W", "latency"))]
    if source is None:
        words += ["-K", setting["K"], "-v", setting["v"], "-M", setting["M"]]
        if setting["name"] == "seq1f1b":
            words += ["--slices", setting["S"]]
    done = subprocess.run([*map(str, words), "--json"], capture_output=True, text=True)
    if done.returncode == 2:
        return {"refused": done.stderr.strip().removeprefix("weir: ")}
    assert done.returncode == 0, (words, done.stderr)
    json_ = json.loads(done.stdout)
    csv = subprocess.run([*map(str, words), "--csv", "-"], capture_output=True, text=True,
                         check=True)
    idle = ("fill", "drain", "imbalance", "communication", "optimizer")
    ranks = json_["ranks"]
    return {"csv": csv.stdout, "step": ns(json_["step_time_s"]), "span": ns(json_["span_s"]),
            "bound": ns(json_["lower_bound_s"]), "bubble": json_["bubble_fraction"],
            "bubbleSpan": json_["bubble_fraction_span"],
            "held": [r["peak_in_flight"] for r in ranks],
            "busy": [ns(r["busy_s"]) for r in ranks],
            "idle": [[ns(r["idle_s"][cause]) for cause in idle] for r in ranks],
            "timeline": [[[a["action"], ns(a["start_s"]), ns(a["end_s"])]
                          for a in json_["timeline"] if a["rank"] == rank]
                         for rank in range(len(ranks))]}


def planned(page):
    """What a page knows of its plan."""
    text = page.read_text().split('id="planned">')[1].split("</script>")[0]
    return json.loads(text)


def expected_of_plan(weir, plan, options, page):
    """What `weir simulate --json` says; its timeline is that of the trace in the page."""
    done = subprocess.run([weir, "-q", "simulate", plan, *options, "--json"], capture_output=True,
                          text=True, check=True)
    json_ = json.loads(done.stdout)
    idle = ("fill", "drain", "imbalance", "communication", "host", "optimizer")
    ranks = json_["ranks"]
    return {"step": ns(json_["step_time_s"]), "span": ns(json_["span_s"]),
            "bound": ns(json_["lower_bound_s"]), "bubble": json_["bubble_fraction"],
            "bubbleSpan": json_["bubble_fraction_span"],
            "held": [r["peak_in_flight"] for r in ranks],
            "busy": [ns(r["busy_s"]) for r in ranks],
            "idle": [[ns(r["idle_s"][cause]) for cause in idle] for r in ranks],
            "times": planned(page)["times"]}


def plain(csv):
    """Without the pairs' marks, a hint for executors that the page does not keep."""
    return csv.replace("(", "").replace(")OVERLAP_F_B", "").replace(";", ",")


def differences(setting, page, command):
    """Sentences, one for each part that is not the same."""
    if "refused" in command or "refused" in page:
        same = ("refused" in command) == ("refused" in page)
        return [] if same else [f"{setting}: page {page.get('refused')}, command "
                                f"{command.get('refused')}"]
    if "csv" in command:
        command = {**command, "csv": plain(command["csv"])}
    # Whole nanoseconds are equal; fractions are the same products, in another order of sums.
    return [f"{setting}: {part}: page {page[part]}, command {command[part]}" for part in command
            if (abs(page[part] - command[part]) > 1e-12 if part.startswith("bubble")
                else page[part] != command[part])]
