#!/usr/bin/env python3
"""A search that is killed wherever it stands goes on to the same result, and only its own.
search_resume_test.py SOURCES WEIR"""
# SPDX-License-Identifier: Apache-2.0
import json
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

SOURCES, WEIR = pathlib.Path(sys.argv[1]), sys.argv[2]
SEED = 20261123
faults = []


def expect(what, true):
    if not true:
        faults.append(what)
        print("FAILED:", what)


def command(*options, batch=64, quiet=("-q",)):
    return [WEIR, *quiet, "sweep", str(SOURCES / "tools/examples/models/llama-3-8b.json"),
            "--cluster", "dgx-h100", "--gpus", "16", "--global-batch-size", str(batch), "--top",
            "5", *options]


def run(folder, *options, **more):
    return subprocess.run(command(*options, **more), cwd=folder, capture_output=True, text=True)


def result(file):
    found = json.loads(file.read_text())
    # What was forecast before the end is not kept, but for the best: the questions that follow the
    # first may forecast some of it again, and count it again.
    counts = ("seconds", "threads", "effort", "feasible")
    return {key: value for key, value in found.items() if key not in counts}


def search_that_stands(folder):
    """A search that has just said for the first time where it stands, or has ended."""
    search = subprocess.Popen(command("-o", "s.json", "--threads", "1"), cwd=folder,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while search.poll() is None and not (folder / "s.json.search").exists():
        time.sleep(0.002)
    return search


def goes_on_for(folder):
    """Seconds from there to its end."""
    with search_that_stands(folder) as search:
        begin = time.monotonic()
        search.wait()
    return time.monotonic() - begin


def killed(folder, moment):
    """Kills a search `moment` seconds from there; whether it was."""
    with search_that_stands(folder) as search:
        time.sleep(moment)
        search.send_signal(signal.SIGKILL)
    return search.returncode == -signal.SIGKILL and (folder / "s.json.search").exists()


print("seed", SEED)
with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    expect("a search ends", run(folder, "-o", "whole.json", "--threads", "1").returncode == 0)
    whole, seconds = result(folder / "whole.json"), goes_on_for(folder)
    expect("it is of a large space", json.loads(
        (folder / "whole.json").read_text())["effort"]["refined"] > 20)
    expect("what is done leaves nothing", not (folder / "whole.json.search").exists())

    moments = random.Random(SEED)
    gone_on = 0
    for case in range(12):  # some may have ended, the machine's pace being what it is
        if gone_on == 4:
            break
        if not killed(folder, moments.uniform(0, 0.7 * seconds)):
            (folder / "s.json").unlink(missing_ok=True)
            continue  # it had ended
        again = run(folder, "-o", "s.json", "--resume", "--threads", str(1 + case % 2))
        expect(f"case {case} goes on: {again.stderr}", again.returncode == 0)
        expect(f"case {case} finds the same", result(folder / "s.json") == whole)
        expect(f"case {case} leaves nothing", not (folder / "s.json.search").exists())
        gone_on += 1
    expect("searches were killed", gone_on > 0)

    if killed(folder, 0):
        other = run(folder, "-o", "s.json", "--resume", batch=32)
        expect("another search is refused", other.returncode == 3)
        expect("by its key", "asked.global_batch_size" in other.stderr)
        expect("in one line", other.stderr.count("\n") == 1)
        state = folder / "s.json.search"
        spoilt = json.loads(state.read_text())
        spoilt["search"]["next"] = -1
        state.write_text(json.dumps(spoilt))
        broken = run(folder, "-o", "s.json", "--resume")
        expect("a spoilt state is refused", broken.returncode == 3)
        expect("by its seal", "not as it was written" in broken.stderr)
    # One that asked once more, for what is with the hosts, goes on from there.
    hosts = command("-o", "h.json", "--threads", "1")
    hosts[3] = str(SOURCES / "tools/examples/models/llama-3-70b.json")
    hosts += ["--seq-length", "4096", "--stack", "megatron-core"]
    both = [folder / "h.json.search", folder / "h.json.hosts.search"]
    expect("hosts are asked", subprocess.run(hosts, cwd=folder).returncode == 0)
    with_hosts = result(folder / "h.json")
    expect("with hosts nothing is left", not any(file.exists() for file in both))
    with subprocess.Popen(hosts, cwd=folder) as search:
        while search.poll() is None and not both[1].exists():
            time.sleep(0.0005)
        search.kill()
    # What is done before it is killed has left nothing, and is searched again.
    again = subprocess.run([*hosts, "--resume"], cwd=folder, capture_output=True, text=True)
    expect(f"hosts' search goes on: {again.stderr}", again.returncode == 0)
    expect("hosts' search finds the same", result(folder / "h.json") == with_hosts)
    expect("hosts' search leaves nothing", not any(file.exists() for file in both))
    alone = run(folder, "--resume")
    expect("--resume without --output", alone.returncode == 2 and "--output" in alone.stderr)
    fresh = run(folder, "-o", "fresh.json", "--resume", quiet=())
    expect("nothing to go on from", fresh.returncode == 0 and "nothing unfinished" in fresh.stderr)
    expect("is searched whole", result(folder / "fresh.json") == whole)
sys.exit(1 if faults else 0)
