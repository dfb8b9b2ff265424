#!/usr/bin/env python3
"""The engine of `weir page`, run by Node.js without a browser: 80 seeded settings, every schedule
five times, and files of one's own, each equal to the nanosecond to `weir schedule --json`.
Usage: engine_test.py SOURCE_DIR WEIR"""
# SPDX-License-Identifier: Apache-2.0
import pathlib
import subprocess
import sys
import tempfile

from engine import NODE, answers
from settings import ASK, differences, expected, settings

if not NODE:
    print("skipped: no Node.js here (Debian: nodejs)")
    sys.exit(77)
weir = sys.argv[2]
# Old letters (B beside W is I), a pair, a message; 2 stages, 2 micro-batches.
OLD = "0F0,0F1,0RECV_B0,0B0,0W0,0B1,0W1\n1F0,1B0,1W0,1F1,1B1,1W1\n"
PAIR = "0F0,0F1,0B0,0B1\n1F0,(1F1;1B0)OVERLAP_F_B,1B1\n"
# Each with a word of what is wrong.
WRONG = [("0F0,0F0,0B0\n", "second time"), ("0F0\n", "whole backward"), ("0F0,3F9\n", "at least"),
         ("0F0,0B0,hello\n", "hello"), ("0B0,0F0\n", "before"), ("0F0,0F1,0B1,0B0\n", "later"),
         ("1F0,1B0\n0F0,1B0\n", "also in"), ("0F0,0BW0,0I0\n", "ambiguous"),
         ("1F0,0F0,0B0,1B0\n", "deadlock"), ("", "none")]

with tempfile.TemporaryDirectory() as folder:
    page = pathlib.Path(folder) / "page.html"
    subprocess.run([weir, "-q", "page", "-o", page], check=True, stdout=subprocess.DEVNULL)
    drawn = list(settings(48, 80))
    own = [{**drawn[0], "csv": text} for text in (OLD, PAIR, *(text for text, _ in WRONG))]
    told = answers(page, drawn + own, ASK)
    wrong, refused = [], 0
    for setting, answer in zip(drawn, told):
        command = expected(weir, setting)
        refused += "refused" in command
        wrong += differences(setting, answer, command)
    for text, answer in zip((OLD, PAIR), told[len(drawn):]):
        mine = pathlib.Path(folder) / "mine.csv"
        mine.write_text(text)
        wrong += differences(text, answer, expected(weir, drawn[0], mine))
    for (text, why), answer in zip(WRONG, told[len(drawn) + 2:]):
        if why not in answer.get("refused", ""):
            wrong.append(f"{text!r}: {answer}")
    print("\n".join(wrong[:10]))
    assert not wrong, f"{len(wrong)} differences"
    assert len(drawn) - refused >= 50, f"{refused} of {len(drawn)} are refused"
print(f"page: {len(drawn) - refused} settings equal, {refused} refused by both")
