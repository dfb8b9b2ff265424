#!/usr/bin/env python3
"""Ctrl-C in the middle of `tune`, `evaluate`, `sweep` and `schedule --prove` leaves what was found
so far, and what was measured is not measured again. An earlier result stays until the new one is
whole.
Usage: stopped_test.py SOURCE_DIR WEIR"""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

weir = os.path.abspath(sys.argv[2])
TINY = {"model_type": "gpt2", "n_embd": 16, "n_head": 2, "n_layer": 3, "vocab_size": 32,
        "n_positions": 8}
TUNE = "tune tiny.json --global-batch-size 2 --rounds 3 --steps 1 --plans 1 -K 1 -o out"
EVALUATE = ("evaluate tiny.json --global-batch-size 4 --fit 1 --interval 9 --held-out 1 --rounds 3 "
            "-K 1 -o judged")
faults = []


def check(what, holds, more=""):
    if not holds:
        faults.append(f"{what} {more}".strip())


def run(line):
    return subprocess.run([weir, "-q", *line.split()], capture_output=True, text=True, timeout=280,
                          check=False)


def doubtful(line):
    """What is said of a machine on which other work runs, as the suite's does."""
    return "the machine was disturbed" in line or "times what its costs forecast" in line


def interrupted(line, ready, what=signal.SIGINT):
    """Asked to end as soon as `ready` holds."""
    started = subprocess.Popen([weir, "-q", *line.split()], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    began = time.monotonic()
    while not ready() and started.poll() is None and time.monotonic() - began < 60:
        time.sleep(0.005)
    check(line, started.poll() is None, "ended before it could be stopped")
    started.send_signal(what)
    out, error = started.communicate(timeout=60)
    return started.returncode, out, "".join(
        line for line in error.splitlines(True) if not doubtful(line))


def kept(folder):
    return {path.name: path.read_bytes() for path in (folder / "unfinished").glob("*.json")}


def measuring(line, folder, result):
    """A first result; one with another seed that is stopped; gone on with."""
    done = run(line)
    check(line, done.returncode == 0, done.stderr)
    before = (folder / result).read_bytes()
    line += " --seed 5"
    rounds = folder / "unfinished"
    code, _, error = interrupted(line, lambda: len(list(rounds.glob("*-round-2.json"))) > 0)
    check(line, code == 130 and error == "weir: stopped by SIGINT\n", f"{code}: {error}")
    check(line, (folder / result).read_bytes() == before, "replaced the earlier result")
    measured = kept(folder)
    check(line, "asked.json" in measured and "profile.json" in measured, sorted(measured))
    other = run(line.replace("--seed 5", "--seed 6") + " --resume")
    check(line, other.returncode == 3 and "asked.json: base: what was measured" in other.stderr,
          f"another request: {other.returncode} {other.stderr}")
    check(line, kept(folder) == measured, "lost what was measured")
    # A run that is kept is read and not made: one that cannot be read is seen.
    name = sorted(name for name in measured if "-round-1" in name)[0]
    (rounds / name).write_text("{")
    broken = run(line + " --resume")
    check(line, broken.returncode == 3 and name in broken.stderr and "damaged" in broken.stderr,
          broken.stderr)
    (rounds / name).write_bytes(measured[name])
    done = run(line + " --resume")
    check(line, done.returncode == 0, done.stderr)
    check(line, not rounds.exists(), "left unfinished work")
    check(line, (folder / result).read_bytes() != before, "kept the earlier result")
    again = run(line + " --resume")
    check(line, again.returncode == 0, f"nothing to go on from: {again.stderr}")


def sweeping():
    """What was found is listed and written, and how far the search was; before anything was found
    there is one line. tests/sim/sweep_test.cpp stops it where there is something."""
    line = ("--json sweep tiny.json -K 1..3 -M 256..2048 --threads 1 --memory-limit 80GiB "
            "-o found.json")
    began = time.monotonic()
    code, out, error = interrupted(line, lambda: time.monotonic() - began > 1)
    check("sweep", code == 130, f"ended with {code}")
    if not out:
        check("sweep", "stopped" in error and error.count("\n") == 1, error)
        check("sweep", not pathlib.Path("found.json").exists(), "wrote nothing that it found")
        return
    check("sweep", error.startswith("weir: stopped: the best of "), error)
    found = json.loads(out)
    check("sweep", 0 < found["stopped_after"] < found["candidates"], found["stopped_after"])
    written = json.loads(pathlib.Path("found.json").read_text())
    check("sweep", len(written["plans"]) == len(found["plans"]), "wrote something else")


def proving():
    """The (K, M) that were proved are shown, as many and the same ones as in a grid of their own;
    asked twice it ends at once."""
    line = "--json schedule 1f1b --prove --grid K={},M=3,2048"
    began = time.monotonic()
    code, out, error = interrupted(line.format("2..512"), lambda: time.monotonic() - began > 1)
    proof = json.loads(out or "{}")
    proved = proof.get("stopped_after", 0)
    check("prove", code == 130 and 0 < proved < proof["asked"] == 2 * 511, f"{code}: {proved}")
    check("prove", error.splitlines() == [f"weir: stopped: the first {proved} (K, M) of 1022"],
          repr(error))
    check("prove", len(proof.get("cases", [])) == proved, "counts others than it has")
    whole = json.loads(run(line.format("2..3")).stdout)
    check("prove", "stopped_after" not in whole and "asked" not in whole, "was not stopped")
    check("prove", proof["cases"][:4] == whole["cases"][:len(proof["cases"])], "other verdicts")
    # One (K, M) of some seconds, so that the second comes while the first is not yet heeded.
    with subprocess.Popen([weir, "-q", *line.format(512).split()], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as long:
        time.sleep(1)
        for _ in range(2):
            long.send_signal(signal.SIGINT)
            time.sleep(0.1)
        out, error = long.communicate(timeout=60)
    check("prove, asked twice", long.returncode == 130 and
          error.splitlines() == ["weir: stopped by SIGINT"], f"{long.returncode}: {error}")


with tempfile.TemporaryDirectory() as name:
    os.chdir(name)
    pathlib.Path("tiny.json").write_text(json.dumps(TINY))
    measuring(TUNE, pathlib.Path("out"), "tune.json")
    measuring(EVALUATE, pathlib.Path("judged"), "evaluation.json")
    sweeping()
    proving()

print("\n".join(faults) or "stopped: what was found is there")
sys.exit(1 if faults else 0)
