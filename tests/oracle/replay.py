"""Replays a trace against its plan, by docs/design.md 4 to 9 and docs/formats.md alone: it shares
no code with what it judges. `faults(trace, rows, told)` is where to start.

A trace is judged step by step: every rank carries out its row of the schedule and nothing else, no
lane does two things at once, what an action needs has ended before it begins, messages of an edge
arrive in the order in which they were sent, no more of them are under way than there are slots, and
busy and idle time, memory and what is in flight are what the forecast or the run says of them."""
# SPDX-License-Identifier: Apache-2.0
import json
import re
from collections import defaultdict, namedtuple

Span = namedtuple("Span", "rank lane peer stage kind unit other start end")
NAME = re.compile(
    r"(\d+)(SEND_F|RECV_F|SEND_B|RECV_B|REDUCE_GRAD|OPTIMIZER|[FBIWR])(\d*)(?::(\d+))?")
COMPUTE = set("FBIWR")


def action(text):
    """`2F0` as (2, "F", 0, None); `0SEND_F3:2`, a skip's own message, as (0, "SEND_F", 3, 2)."""
    stage, kind, unit, other = NAME.fullmatch(text).groups()
    return int(stage), kind, int(unit) if unit else -1, int(other) if other else None


def skips_of(plan, levels):
    """The stages between which the skips of a U-Net of so many levels go directly: level l is made
    by layer l and taken by layer 2 levels - l, past one stage or more."""
    if plan.get("skips") != "direct":
        return set()
    stage = [sum(layer >= first for first in plan["boundaries"]) for layer in range(2 * levels + 1)]
    ends = {(stage[level], stage[2 * levels - level]) for level in range(levels)}
    return {(maker, taker) for maker, taker in ends if taker > maker + 1}


def spans_of(trace):
    """The spans of each step."""
    steps = defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] == "X" and "operation" in event["args"]:
            a = event["args"]
            steps[a["step"]].append(Span(event["pid"], a["lane"], a["peer"], *action(event["name"]),
                                         a["start_ns"], a["end_ns"]))
    return [sorted(steps[step], key=lambda s: (s.start, s.end)) for step in sorted(steps)]


def orders(spans, rows):
    """Each rank's compute lane is its row; an R stands directly before its B or I."""
    for rank, row in enumerate(rows):
        lane = [s for s in spans if s.rank == rank and s.kind in COMPUTE]
        done = [(s.stage, s.kind, s.unit) for s in lane if s.kind != "R"]
        if done != [action(word)[:3] for word in row]:
            yield f"rank {rank} did not carry out its row of the schedule"
        for again, then in zip(lane, lane[1:]):
            same = (then.stage, then.unit) == (again.stage, again.unit)
            if again.kind == "R" and not (then.kind in "BI" and same):
                yield f"rank {rank}: {again.stage}R{again.unit} is not before its backward"
    lanes = defaultdict(list)
    for span in spans:
        lanes[span.rank, span.lane, span.peer].append(span)
    for key, lane in lanes.items():
        for one, next_one in zip(lane, lane[1:]):
            if next_one.start < one.end:
                yield f"lane {key} does two things at {next_one.start} ns"


def causes(spans, stages, skips):
    """What an action needs has ended before it begins."""
    ended = {(s.stage, s.kind, s.unit, s.other): s.end for s in spans}
    rank_of = {s.stage: s.rank for s in spans if s.kind in COMPUTE}

    def backward(stage, unit):
        return next((key for kind in "BI" if (key := (stage, kind, unit, None)) in ended), None)

    def needs(s):
        here = s.stage % stages  # within its replica
        if s.kind == "F" and here > 0:
            same = rank_of[s.stage - 1] == s.rank
            yield (s.stage - 1, "F", s.unit, None) if same else (s.stage, "RECV_F", s.unit, None)
            for maker in (maker for maker, taker in skips if taker == s.stage):
                yield s.stage, "RECV_F", s.unit, maker
        if s.kind in "BIR":
            yield s.stage, "F", s.unit, None
        if s.kind in "BI" and here < stages - 1:
            same = rank_of[s.stage + 1] == s.rank
            yield backward(s.stage + 1, s.unit) if same else (s.stage, "RECV_B", s.unit, None)
            for taker in (taker for maker, taker in skips if maker == s.stage):
                yield s.stage, "RECV_B", s.unit, taker
        if s.kind == "W":
            yield s.stage, "I", s.unit, None
        if s.kind == "SEND_F":
            yield s.stage, "F", s.unit, None
        if s.kind == "SEND_B":
            yield backward(s.stage, s.unit)
        if s.kind == "RECV_F":
            yield other_end(s, s.stage - 1, "SEND_F")
        if s.kind == "RECV_B":
            yield other_end(s, s.stage + 1, "SEND_B")

    def other_end(s, neighbour, kind):
        return (neighbour, kind, s.unit, None) if s.other is None else \
            (s.other, kind, s.unit, s.stage)

    between = {(s.stage, s.other) if s.kind in ("SEND_F", "RECV_B") else (s.other, s.stage)
               for s in spans if s.other is not None}
    if between != skips:
        yield f"skips go directly between {sorted(between)}, not {sorted(skips)}"
    for span in spans:
        for cause in needs(span):
            late = cause not in ended or ended[cause] > \
                (span.end if span.kind.startswith("RECV") else span.start)
            if late:
                yield f"{span.stage}{span.kind}{span.unit} did not wait for {cause}"
    for stage in rank_of:
        last = max(s.end for s in spans if s.stage == stage and s.kind in COMPUTE)
        for update in (s for s in spans if s.stage == stage and s.kind == "OPTIMIZER"):
            if update.start < last:
                yield f"stage {stage} was updated before its last backward"


def messages(spans, slots):
    """FIFO on each edge, and no more under way than slots."""
    ends = {(s.stage, s.kind, s.unit): s.end for s in spans}
    sent, received = defaultdict(list), defaultdict(list)
    for s in spans:
        if s.kind.startswith("SEND"):
            to = s.other if s.other is not None else s.stage + (1 if s.kind == "SEND_F" else -1)
            sent[s.rank, s.peer].append((to, s.kind[-1], s.unit, s.start))
        elif s.kind.startswith("RECV"):
            received[s.peer, s.rank].append((s.stage, s.kind[-1], s.unit))
    for edge in sent.keys() | received.keys():
        if [m[:3] for m in sent[edge]] != received[edge]:
            yield f"edge {edge}: messages are received in another order than they were sent"
        for i, message in enumerate(sent[edge][slots:] if slots else []):
            stage, letter, unit, _ = sent[edge][i]
            kinds = "F" if letter == "F" else "BI"
            freed = next(ends[stage, k, unit] for k in kinds if (stage, k, unit) in ends)
            if message[3] < freed:
                yield f"edge {edge}: message {i + slots} has no slot until {freed} ns"


def in_flight(spans, ranks):
    """Stage-micro-batches, from the start of F to the end of B or W, at their peak."""
    for rank in range(ranks):
        mine = [s for s in spans if s.rank == rank]
        weights = {(s.stage, s.unit) for s in mine if s.kind == "W"}
        changes = [(s.start, 1) for s in mine if s.kind == "F"]
        changes += [(s.end, -1) for s in mine
                    if s.kind in "BW" or (s.kind == "I" and (s.stage, s.unit) not in weights)]
        now = peak = 0
        for _, change in sorted(changes):  # at one instant what ends makes room first
            now += change
            peak = max(peak, now)
        yield peak


def sums(trace, spans, step, told):
    """What a forecast says of its one step."""
    length = (step["end_ns"] - step["start_ns"]) * 1e-9
    near = 2e-9  # seconds are printed from whole nanoseconds
    busy, ideal, span = [], [], []
    for rank in range(trace["weir"]["ranks"]):
        lane = [s for s in spans if s.rank == rank and s.lane == "compute"]
        work = [s for s in lane if s.kind in COMPUTE]
        busy.append(sum(s.end - s.start for s in lane) * 1e-9)
        ideal.append(sum(s.end - s.start for s in work) * 1e-9)
        span.append((max(s.end for s in work) - min(s.start for s in work)) * 1e-9)
    mean = [sum(values) / len(values) for values in (busy, ideal)]
    expected = {"step_time_s": length, "span_s": max(span), "ideal_s": mean[1],
                "bubble_fraction": 1 - mean[0] / length,
                "bubble_fraction_span": 1 - mean[1] / max(span)}
    for key, value in expected.items():
        if abs(told[key] - value) > near + 1e-9 * abs(value):
            yield f"{key}: told {told[key]}, the trace has {value}"
    for row, (mine, flying) in zip(told["ranks"], zip(busy, in_flight(spans, len(busy)))):
        idle = sum(row["idle_s"].values())
        if abs(row["busy_s"] - mine) > near or abs(idle + mine - length) > near * 7:
            yield f"rank {row['rank']}: busy {mine} and idle {idle} do not make {length}"
        if row["peak_in_flight"] != flying:
            yield f"rank {row['rank']}: {flying} in flight, told {row['peak_in_flight']}"


def memory(trace, told):
    """No moment is above its rank's peak, which what an action takes and gives back while it runs
    belongs to and the samples at its borders do not; and the kinds add up, there and at every
    moment."""
    for row in told["ranks"]:
        if row["memory_bytes"] and sum(row["memory_bytes"].values()) != row["peak_memory_bytes"]:
            yield f"rank {row['rank']}: {row['memory_bytes']} make another peak"
    curves = defaultdict(dict)
    for counter in trace["weir"]["counters"]:
        curves[counter["rank"]][counter["name"]] = list(zip(counter["time_ns"], counter["value"]))
    for rank, mine in curves.items():
        if "memory" not in mine:
            continue
        peak = max(value for _, value in mine["memory"])
        most = told["ranks"][rank]["peak_memory_bytes"]
        if most is not None and peak > most:
            yield f"rank {rank}: {peak} bytes at a moment, told a peak of {most}"
        kinds = [curve for name, curve in mine.items() if name.startswith("memory/")]
        at = {time: dict.fromkeys(range(len(kinds)), None) for time, _ in mine["memory"]}
        for index, curve in enumerate(kinds):
            for time, value in curve:
                at.setdefault(time, {})[index] = value
        now = [0] * len(kinds)
        whole = dict(mine["memory"])
        for time in sorted(at):
            for index, value in at[time].items():
                now[index] = now[index] if value is None else value
            if kinds and time in whole and sum(now) != whole[time]:
                yield f"rank {rank}: at {time} ns the kinds are {sum(now)}, the whole {whole[time]}"
                break


def faults(trace, rows, told=None, levels=0):
    """All that is wrong with a trace; `rows`: the schedule's actions by rank, `told`: the forecast
    that goes with it, `levels`: of a U-Net."""
    plan = json.loads(trace["weir"]["info"]["plan"])
    stages = len(plan["boundaries"]) + 1
    found = []
    steps = spans_of(trace)
    if len(steps) != len(trace["weir"]["steps"]):
        found.append(f"{len(steps)} steps of spans, {len(trace['weir']['steps'])} steps")
    for spans, step in zip(steps, trace["weir"]["steps"]):
        found += orders(spans, rows)
        found += causes(spans, stages, skips_of(plan, levels))
        found += messages(spans, plan["slots"])
        if min(s.start for s in spans) < step["start_ns"] or \
                max(s.end for s in spans) > step["end_ns"]:
            found.append("a span lies outside of its step")
        if told:
            found += sums(trace, spans, step, told)
    if told:
        found += memory(trace, told)
    return found
