#!/usr/bin/env python3
"""`mpirun -n K weir run`: one report, the threads' hash, and one ending for all when a process fails, stops or lies."""
import json
import pathlib
import subprocess
import sys
import tempfile
import time

mpirun, weir = sys.argv[1:3]
MODEL = {"model_type": "gpt2", "n_embd": 32, "n_head": 2, "n_layer": 3, "vocab_size": 256, "n_positions": 32}
faults = []


def expect(what, true):
    if not true:
        faults.append(what)
        print("FAILED:", what)


def start(folder, ranks, arguments, first="", seconds=60):
    """Runs `weir ARGUMENTS` on each rank; on rank 1 the shell line `first` comes before. Returns code, stdout, stderr, time."""
    script = folder / "rank.sh"
    rank = "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"
    script.write_text(f'#!/bin/sh\nif [ "{rank}" = 1 ]; then :; {first}\nfi\nexec "{weir}" {arguments}\n')
    script.chmod(0o755)
    begun = time.monotonic()
    done = subprocess.run([mpirun, "-n", str(ranks), str(script)], cwd=folder, capture_output=True, text=True,
                          timeout=seconds, check=False)
    return done.returncode, done.stdout, done.stderr, time.monotonic() - begun


def ours(stderr):
    return [line for line in stderr.splitlines() if line.startswith("weir: ") and "oversubscribed" not in line]


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    (folder / "model.json").write_text(json.dumps(MODEL))
    for k, dp in ((2, 1), (1, 2)):
        subprocess.run([weir, "plan", "model.json", "-K", str(k), "-M", "2", "--dp", str(dp), "-o", f"k{k}.json"],
                       cwd=folder, check=True, capture_output=True)

    threads = json.loads(subprocess.run([weir, "--json", "-q", "run", "k2.json", "--steps", "1", "-o", "threads"], cwd=folder,
                                        check=True, capture_output=True, text=True).stdout)
    code, out, err, _ = start(folder, 2, "--json -q run k2.json --steps 1 -o mpi")
    expect(f"a run of two processes succeeds: {err}", code == 0)
    run = json.loads(out)  # one report, not two
    expect("the hash is the threads'", run["parameters_sha256"] == threads["parameters_sha256"])
    expect("every rank's peak is reported", all(rank["peak_memory_bytes"] > 0 for rank in run["ranks"]))
    compared = subprocess.run([weir, "--json", "compare", "threads/measured.json", "mpi/measured.json"], cwd=folder,
                              check=False, capture_output=True, text=True)
    expect(f"the traces join: {compared.stderr}", compared.returncode == 0)

    code, out, err, _ = start(folder, 2, "--json -q run k1.json --steps 1")
    expect(f"two replicas run: {err}", code == 0 and json.loads(out)["steps"][0]["loss"] > 0)

    code, _, err, _ = start(folder, 3, "-q run k2.json")
    expect(f"three processes for K = 2 are refused in one line: {err}",
           code == 2 and len(ours(err)) == 1 and "needs K * D = 2 * 1 = 2 processes" in err)

    code, _, err, _ = start(folder, 2, "-q run k2.json --data nowhere")
    expect(f"what all lack is bad input: {err}", code == 3 and len(ours(err)) == 1)

    code, _, err, took = start(folder, 2, "-q run k2.json --data k2.json", f'exec "{weir}" -q run k2.json --data nowhere')
    expect(f"what one lacks fails the run, in one line that names it: {err}",
           code == 6 and len(ours(err)) == 1 and "process 1 on" in err and "nowhere" in err)
    expect("and soon", took < 15)

    long_run = "-q run k2.json --steps 1000000 --patience 1"
    code, _, err, took = start(folder, 2, long_run, "(sleep 1.5; kill -STOP $$) &")
    expect(f"a process that stands still is missed: {err}", code == 6 and "process 1 on" in err and "no sign of life" in err)
    expect("and soon", took < 20)

    code, _, _, took = start(folder, 2, long_run, "(sleep 1.5; kill -KILL $$) &")
    expect("a killed process ends all; the code is then the launcher's", code != 0 and took < 20)

    alone = subprocess.run([weir, "run", "k1.json"], cwd=folder, check=False, capture_output=True, text=True)
    expect(f"replicas are refused in one process: {alone.stderr}", alone.returncode == 5 and "mpirun -n 2" in alone.stderr)

print("processes: one report, one ending" if not faults else f"{len(faults)} faults")
sys.exit(1 if faults else 0)
