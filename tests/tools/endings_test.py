#!/usr/bin/env python3
"""However a command ends, it is by 0, 2 to 6 or 128 and a signal's number, with one line where it
is not 0: signals, closed pipes, too little memory, too few threads and descriptors, outputs that
cannot be written, programs that do not end. What was there before is still there, and nothing else
is left.
Usage: endings_test.py SOURCE_DIR WEIR"""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

weir = sys.argv[2]
TINY = {"model_type": "gpt2", "n_embd": 16, "n_head": 2, "n_layer": 3, "vocab_size": 32,
        "n_positions": 8}
ENDS = {0, 2, 3, 4, 5, 6}
faults = []


def check(what, holds, more=""):
    if not holds:
        faults.append(f"{what} {more}".strip())


def run(line, before=None, quiet=("-q",), **options):
    return subprocess.run([weir, *quiet, *line.split()], capture_output=True, text=True,
                          timeout=120, preexec_fn=before, **options)


def one_line(text):
    lines = [line for line in text.splitlines() if line]
    return len(lines) == 1 and lines[0].startswith("weir: ")


def ends_well(what, done, codes=ENDS):
    check(what, done.returncode in codes, f"ended with {done.returncode}: {done.stderr}")
    check(what, done.returncode == 0 or one_line(done.stderr), f"said: {done.stderr!r}")


def files():
    """All but what each rank was last at, which a run that is cut short leaves on purpose."""
    return {path: path.read_bytes() for path in pathlib.Path().rglob("*")
            if path.is_file() and path.parent.name != "last-actions"}


def limit(what, soft):
    return lambda: resource.setrlimit(what, (soft, soft))


def wait_for(path):
    """Until it is there: a busy machine takes its time to begin."""
    began = time.monotonic()
    while not pathlib.Path(path).exists() and time.monotonic() - began < 60:
        time.sleep(0.05)


def signals():
    """A long run, asked to end while it goes on."""
    for asked in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        before = files()
        long = subprocess.Popen(
            [weir, "-q", "run", "plan.json", "--backend", "synthetic", "--steps", "100000", "-o",
             "out"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_for("out/last-actions/rank-1.txt")
        time.sleep(0.2)
        long.send_signal(asked)
        _, error = long.communicate(timeout=30)
        # A run asked to stop does so after its step and keeps what it has; else it is cut short.
        stopped = pathlib.Path("out/run.json").exists()
        check(asked.name, long.returncode == 128 + asked, f"ended with {long.returncode}")
        check(asked.name, one_line(error) and (stopped or asked.name in error), repr(error))
        check(asked.name, files() == before or stopped, "left other files")
        shutil.rmtree("out", ignore_errors=True)


def closed_pipe():
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([weir, "schedule", "--list"], stdout=writing, stderr=subprocess.PIPE,
                          text=True)
    os.close(writing)
    check("a closed pipe", done.returncode == 141, f"ended with {done.returncode}")
    check("a closed pipe", done.stderr == "", done.stderr)


def short_memory():
    """From too little to load the program to enough for all of it. Where two threads train with 200
    to 260 MiB, oneDNN finds no memory for its kernels' code at any of several places."""
    codes = set()
    for mebibytes in (72, 80, 90, 104, 128, 200, 320, 600):
        for line in ("sweep tiny.json -K 1..3 -M 1..8 -o found.json", "schedule gpipe -K 32 -M 128",
                     "run wide.json --backend synthetic --steps 2 -o small",
                     "run plan.json --steps 2 -o small"):
            done = run(line, limit(resource.RLIMIT_AS, mebibytes << 20))
            if done.returncode == 127 or "error while loading shared libraries" in done.stderr:
                continue  # the loader's, before there is a program
            codes.add(done.returncode)
            ends_well(f"{mebibytes} MiB of memory: {line}", done)
    for mebibytes in range(136, 296, 16):
        done = run("tune tiny.json --global-batch-size 2 --rounds 1 --steps 1 --plans 1 -K 2 "
                   "-o short", limit(resource.RLIMIT_AS, mebibytes << 20))
        codes.add(done.returncode)
        ends_well(f"{mebibytes} MiB of memory: tune", done)
    check("short memory", 6 in codes, f"was never short: {codes}")


def few_threads():
    """As nobody, who may have so many processes and threads and no more."""
    if os.getuid() != 0:
        print("few threads: not root, left out")
        return
    nobody = 65534
    for path in [pathlib.Path(), *pathlib.Path().rglob("*")]:
        os.chown(path, nobody, nobody)
    for threads in (1, 2, 3, 5, 8):
        def before(threads=threads):
            resource.setrlimit(resource.RLIMIT_NPROC, (threads, threads))
            os.setgid(nobody)
            os.setuid(nobody)
        done = run("run wide.json --backend synthetic --steps 2 -o few", before)
        ends_well(f"{threads} threads", done)
        ends_well(f"a search with {threads} threads",
                  run("sweep tiny.json -K 1..3 -M 1,2,4 --threads 4 -o found.json", before))
    check("few threads", "threads are needed" in run(
        "run wide.json --backend synthetic --steps 2", before).stderr, "was not said")


def few_descriptors():
    for count in (4, 5, 6, 8, 12):
        ends_well(f"{count} descriptors", run("run plan.json --steps 2 -o narrow",
                                              limit(resource.RLIMIT_NOFILE, count)))


def short_files():
    """A file that may not grow: what was there stays."""
    assert run("run plan.json --steps 2 -o kept").returncode == 0
    before = files()
    done = run("run plan.json --steps 2 -o kept", limit(resource.RLIMIT_FSIZE, 512))
    check("short files", done.returncode in (3, 6), f"ended with {done.returncode}")
    ends_well("short files", done)
    check("short files", files() == before, "changed what was there")


def large():
    """What will take gigabytes says so in one line before; with so little memory it then fails."""
    plan = json.loads(pathlib.Path("wide.json").read_text())
    pathlib.Path("large.json").write_text(json.dumps({**plan, "microbatches": 131_072}))
    for line in ("simulate large.json", "run large.json --backend synthetic --steps 2",
                 "schedule 1f1b -K 16 -M 131072", "plan wide.csv -K 16 -M 131072 -o huge.json",
                 "schedule 1f1b --prove --grid K=2,16,M=16,131072"):
        done = run(line, limit(resource.RLIMIT_AS, 160 << 20), quiet=())
        said = done.stderr.splitlines()
        check(line, len(said) == 2 and said[0] == "weir: a schedule of 16 stages and 131072 "
              "micro-batches takes some 2.04 GiB of this machine's memory", done.stderr)
        check(line, done.returncode == 6, f"ended with {done.returncode}")
    # Four layers of 12 x 4096^2 numbers, each with its gradient and Adam's two moments, in fp32.
    pathlib.Path("broad.json").write_text(json.dumps({**TINY, "n_embd": 4096, "n_layer": 4}))
    assert run("plan broad.json -K 2 -M 2 -o broad-plan.json").returncode == 0
    done = run("run broad-plan.json --steps 2", limit(resource.RLIMIT_AS, 600 << 20), quiet=())
    said = done.stderr.splitlines()
    check("a large model", len(said) == 2 and said[0] ==
          "weir: training, besides activations, takes some 12.01 GiB of this machine's memory",
          done.stderr)
    check("a large model", done.returncode == 6, f"ended with {done.returncode}")
    check("a large model", said[1].startswith(
        "weir: rank 0, before the first step: out of memory for "), done.stderr)
    # Few weights, and 4 MiB of the residual stream for each 8192 samples: gigabytes of activations.
    assert run("plan tiny.json -K 2 -M 2 -b 65536 -o wide-batch.json").returncode == 0
    done = run("run wide-batch.json --steps 2", limit(resource.RLIMIT_AS, 600 << 20))
    check("large activations", done.returncode == 6 and one_line(done.stderr), done.stderr)
    check("large activations", re.fullmatch(
        r"weir: before the first step: rank 0, step 0, 0F\d: out of memory for .* of .*, .*iB: "
        r".* are free\n", done.stderr), done.stderr)
    long = subprocess.Popen([weir, "run", "plan.json", "--backend", "synthetic", "--steps",
                             "1000000"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                            text=True)
    said = long.stderr.readline()
    long.kill()
    long.communicate()
    check("a long trace", said.startswith("weir: the trace of 999999 steps takes some"), said)


def no_folder():
    """An output that cannot be is said before the work: these would take an hour."""
    pathlib.Path("file").write_text("x")
    for out in ("file", "file/deeper", "/proc/none"):
        began = time.monotonic()
        for line in (f"run plan.json --backend synthetic --steps 1000000 -o {out}",
                     f"tune tiny.json --rounds 100000 -o {out}",
                     f"evaluate tiny.json --held-out 60000 -o {out}"):
            done = run(line)
            check(line, done.returncode == 3 and "cannot be written" in done.stderr,
                  f"{done.returncode}: {done.stderr}")
        check(out, time.monotonic() - began < 20, "came after the work")
    done = run("plan tiny.json -K 2 -M 4 -o file/plan.json")
    ends_well("a file as a folder", done, {3})


def folder_that_goes():
    """The one that a run works in goes while it trains: what it found is told all the same."""
    inside = pathlib.Path("goes")
    inside.mkdir()
    for name in ("tiny.json", "plan.json"):
        shutil.copy(name, inside)
    line = "-q run plan.json --backend synthetic --steps 200 -o out --json"
    long = subprocess.Popen([weir, *line.split()], cwd=inside, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)
    wait_for(inside / "out/last-actions/rank-1.txt")
    shutil.rmtree(inside)
    out, error = long.communicate(timeout=60)
    # With --json the line is an object.
    check("a folder that goes", long.returncode == 6 and error.count("\n") == 1,
          f"{long.returncode} {error!r}")
    check("a folder that goes", '"step_time_s"' in out, "lost its result")


def links():
    """An output takes the place of a link and does not go through it, nor through one that lies
    where a temporary file might; a file that is read is not written over, by any of its names."""
    victim = pathlib.Path("victim")
    victim.write_text("mine")
    for name in ("linked.json", "linked.json.tmp", "linked.tmp", ".linked.json.tmp"):
        pathlib.Path(name).symlink_to(victim)
    check("links", run("plan tiny.json -K 2 -M 4 -o linked.json").returncode == 0, "not written")
    check("links", victim.read_text() == "mine", "written through")
    check("links", json.loads(pathlib.Path("linked.json").read_text())["pp"] == 2, "not the plan")
    for path in pathlib.Path().glob("*linked*tmp"):
        path.unlink()
    model = pathlib.Path("tiny.json").read_bytes()
    pathlib.Path("other.json").symlink_to("tiny.json")
    os.link("tiny.json", "same.json")
    for out in ("tiny.json", "./tiny.json", "other.json", "same.json"):
        for line in (f"plan tiny.json -K 2 -o {out}", f"sweep tiny.json -K 1 -M 1 -o {out}"):
            ends_well(line, run(line), {2})
    check("links", pathlib.Path("tiny.json").read_bytes() == model, "an input was written over")


def programs():
    """A program of the user's own ends with us."""
    mark = pathlib.Path("still-here")
    mine = pathlib.Path("mine.sh")
    mine.write_text("#!/bin/sh\ntouch begun\nsleep 3\ntouch still-here\n")
    mine.chmod(0o755)
    long = subprocess.Popen([weir, "schedule", "exec:./mine.sh"], stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True)
    wait_for("begun")
    long.send_signal(signal.SIGTERM)
    _, error = long.communicate(timeout=30)
    check("a program's end", long.returncode == 143 and one_line(error),
          f"{long.returncode} {error}")
    time.sleep(3.5)
    check("a program's end", not mark.exists(), "it went on after us")
    done = run("schedule exec:./endless.sh")
    check("a program that is not there", done.returncode == 3, done.stderr)
    check("a program that is not there", "ended with status 127" in done.stderr, done.stderr)
    pathlib.Path("endless.sh").write_text("#!/bin/sh\nexec cat /dev/zero\n")
    pathlib.Path("endless.sh").chmod(0o755)
    done = run("schedule exec:./endless.sh")
    ends_well("an endless program", done, {3})
    check("an endless program", "prints more than" in done.stderr, done.stderr)
    done = run("model /dev/zero")
    ends_well("an endless file", done, {3})
    check("an endless file", "larger than 1 GiB" in done.stderr, done.stderr)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    pathlib.Path("tiny.json").write_text(json.dumps(TINY))
    pathlib.Path("wide.csv").write_text(
        "name,kind,parameters,f_ms,i_ms,w_ms,activation_bytes,boundary_bytes,count\n"
        "l,x,10,1,1,1,64,64,16\n")
    assert run("plan tiny.json -K 2 -M 4 -o plan.json").returncode == 0
    assert run("plan wide.csv -K 16 -M 16 -o wide.json").returncode == 0
    # CUDA's libraries alone take more than either has.
    small = run("--version", limit(resource.RLIMIT_AS, 600 << 20)).returncode == 0
    if not small:
        print("short memory: not even this build's libraries fit, left out")
    for test in (signals, closed_pipe, *((short_memory, large) if small else ()),
                 few_descriptors, short_files, no_folder, folder_that_goes, links, programs,
                 few_threads):
        test()
    left = [str(path) for path in pathlib.Path().rglob("*.tmp")]
    check("temporary files", not left, f"left: {left}")

print("\n".join(faults) or "endings: every one by its code, with one line")
sys.exit(1 if faults else 0)
