#!/usr/bin/env python3
"""`weir run` in several processes: one report, the threads' hash, and one ending for all when a
process fails, stops or lies. command_test.py WEIR MPIRUN"""
# SPDX-License-Identifier: Apache-2.0
import json
import pathlib
import subprocess
import sys
import tempfile

from launch import ByMpi

weir = sys.argv[1]
by_mpi = ByMpi(sys.argv[2], weir)
MODEL = {
    "model_type": "gpt2",
    "n_embd": 32,
    "n_head": 2,
    "n_layer": 3,
    "vocab_size": 256,
    "n_positions": 32,
}
faults = []


def expect(what, true):
    if not true:
        faults.append(what)
        print("FAILED:", what)


def all_exit(ended, code):
    return set(ended.codes) == {code}


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    (folder / "model.json").write_text(json.dumps(MODEL))
    for k, dp in ((2, 1), (1, 2)):
        subprocess.run(
            [
                weir,
                "plan",
                "model.json",
                "-K",
                str(k),
                "-M",
                "2",
                "--dp",
                str(dp),
                "--clip-grad",
                "0.05",
                "-o",
                f"k{k}.json",
            ],
            cwd=folder,
            check=True,
            capture_output=True,
        )

    threads = json.loads(
        subprocess.run(
            [weir, "--json", "-q", "run", "k2.json", "--steps", "2", "-o", "threads"],
            cwd=folder,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    )
    ended = by_mpi.start(folder, 2, "--json -q run k2.json --steps 2 -o out")
    expect(f"a run of two processes succeeds: {ended}", all_exit(ended, 0))
    run = json.loads(ended.out)  # one report, not two
    expect("the hash is the threads'", run["parameters_sha256"] == threads["parameters_sha256"])
    expect(
        "every rank's peak is reported", all(rank["peak_memory_bytes"] > 0 for rank in run["ranks"])
    )
    compared = subprocess.run(
        [weir, "--json", "compare", "threads/measured.json", "out/measured.json"],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
    )
    expect(f"the traces join: {compared.stderr}", compared.returncode == 0)

    ended = by_mpi.start(folder, 2, "--json -q run k1.json --steps 1")
    expect(
        f"two replicas run: {ended}",
        all_exit(ended, 0) and json.loads(ended.out)["steps"][0]["loss"] > 0,
    )
    replicas = json.loads(ended.out)["parameters_sha256"]

    ended = by_mpi.start(folder, 3, "-q run k2.json")
    expect(
        f"three processes for K = 2 are refused in one line: {ended}",
        all_exit(ended, 2)
        and len(ended.lines) == 1
        and "needs K * D = 2 * 1 = 2 processes" in ended.err,
    )

    # A search that three processes share finds what one finds; the first of them has it.
    (folder / "tiny.json").write_text(json.dumps(dict(MODEL, n_layer=6)))
    search = ("--json -q sweep tiny.json --cluster dgx-h100 --gpus 16 --global-batch-size 16 "
              "--top 5")

    def found(text):
        return {key: value for key, value in json.loads(text).items()
                if key not in ("seconds", "threads")}

    alone = subprocess.run([weir, *search.split()], cwd=folder, check=True, capture_output=True,
                           text=True)
    ended = by_mpi.start(folder, 3, search + " -o shared.json --transport mpi")
    expect(f"three processes search: {ended}", all_exit(ended, 0))
    expect("they find what one finds", found(ended.out) == found(alone.stdout))
    expect("and write it once", (folder / "shared.json").exists()
           and not (folder / "shared.json.search").exists())
    # The first process tells the others where it stands: they need not see its file.
    nothing = by_mpi.start(folder, 2, search + " -o again.json --resume")
    expect(f"nothing to resume is searched whole: {nothing}",
           all_exit(nothing, 0) and found(nothing.out) == found(alone.stdout))
    # Who was given another search is named, and nothing is searched.
    for other, what in ((search + " -b 2", "micro_batch_size: "),
                        (search + " --budget 3s", "budget: 3s, process 0 has none"),
                        (search.replace("dgx-h100", "dgx-a100"), "memory_limit_bytes: ")):
        ended = by_mpi.start(folder, 2, search, f'exec "{weir}" {other}')
        expect(f"{other} beside another search is refused: {ended}",
               all_exit(ended, 2)
               and f"was not given what process 0 was: {what}" in ended.err)
    ended = by_mpi.start(folder, 2, search + " --memory-limit 1KiB")
    expect(f"where nothing fits one of them says so: {ended}",
           all_exit(ended, 4) and ended.err.count("no plan fits") == 1)

    # A budget that is over before a plan was found: whoever ends first, the verdict is the first
    # process's, 4, and not that of a run that failed, 6.
    for _ in range(5):
        ended = by_mpi.start(folder, 2, search + " --budget 0.001ms")
        expect(f"a budget too short is no failed run: {ended}", all_exit(ended, 4))

    # A layout's processors as processes: one report, of what threads count; each block is held
    # against the unsplit computation there.
    lay = (f"--json -q layout {pathlib.Path(__file__).parents[2]}/tests/fuzz/seeds/layout/"
           "network.json --run --rounds 2 --rules ffn:m,vocab:m --mesh m=")
    alone = subprocess.run([weir, *(lay + "2").split()], cwd=folder, check=True,
                           capture_output=True, text=True)
    ended = by_mpi.start(folder, 2, lay + "2 --program laid.json")
    expect(f"two processes run a layout: {ended}", all_exit(ended, 0))
    ran, by_thread = json.loads(ended.out)["run"], json.loads(alone.stdout)["run"]
    expect("they say what carried their messages", ran["processes"] and not by_thread["processes"])
    for key in ("multiply_adds", "exchanged_elements", "derived_elements"):
        expect(f"{key} is the threads'", ran["layouts"][0][key] == by_thread["layouts"][0][key])
    expect("one of them writes the program", (folder / "laid.json").exists())
    ended = by_mpi.start(folder, 2, lay + "4")
    expect(f"a mesh of four is refused once: {ended}",
           all_exit(ended, 2) and ended.err.count("mpirun started 2 processes") == 1)
    seed = pathlib.Path(__file__).parents[2] / "tests/fuzz/seeds/layout/network.json"
    (folder / "own.json").write_bytes(seed.read_bytes())
    ended = by_mpi.start(folder, 2, "layout own.json --run --mesh m=2 --rules ffn:m "
                         "--program own.json")
    expect(f"an input that would be written over is told once: {ended}",
           all_exit(ended, 2) and ended.err.count("would be written over") == 1
           and (folder / "own.json").read_bytes() == seed.read_bytes())
    ended = by_mpi.start(folder, 2, lay + "2", f'exec "{weir}" {lay}2 --seed 2')
    expect(f"another seed is named: {ended}",
           all_exit(ended, 2) and "was not given what process 0 was: seed" in ended.err)

    # Stopped and resumed, by processes or by threads: the hash is that of a run that went on.
    plan = [weir, "plan", "model.json", "-K", "1", "-M", "2", "--clip-grad", "0.05", "-o",
            "one.json"]
    subprocess.run(plan, cwd=folder, check=True, capture_output=True)

    def by_threads(line):
        done = subprocess.run([weir, "--json", "-q", "run", *line.split()], cwd=folder,
                              check=False, capture_output=True, text=True)
        return json.loads(done.stdout) if done.returncode == 0 else {"failed": done.stderr}

    whole = by_threads("one.json --warmup 0 --steps 5")
    ended = by_mpi.start(
        folder, 2, "--json -q run k2.json --warmup 0 --steps 2 --checkpoint-every 1 -o stopped"
    )
    expect(f"processes write checkpoints: {ended}", all_exit(ended, 0))
    rest = by_threads(
        "one.json --warmup 0 --steps 1 --checkpoint-every 1 --resume stopped -o stopped"
    )
    expect(f"one thread goes on: {rest}", rest.get("first_step") == 2)
    ended = by_mpi.start(folder, 2, "--json -q run k2.json --warmup 0 --steps 2 --resume stopped")
    expect(f"two processes go on: {ended}", all_exit(ended, 0))
    rest = json.loads(ended.out)
    expect("from the third step", rest["first_step"] == 3)
    expect("bitwise", rest["parameters_sha256"] == whole["parameters_sha256"])
    expect("with its losses",
           [s["loss"] for s in rest["steps"]] == [s["loss"] for s in whole["steps"][3:]])
    line = "--json -q run k2.json --warmup 0 --steps 1 --save by.safetensors --dump d.safetensors"
    ended = by_mpi.start(folder, 2, line)
    by_threads("one.json --warmup 0 --steps 1 --save one.safetensors --dump o.safetensors")
    for ours, threads_file in (("by", "one"), ("d", "o")):
        ours, theirs = (folder / f"{name}.safetensors" for name in (ours, threads_file))
        expect(f"{ours.name} is the threads'", ours.read_bytes() == theirs.read_bytes())

    ended = by_mpi.start(folder, 2, "-q run k2.json --data nowhere")
    expect(f"what all lack is bad input: {ended}", all_exit(ended, 3) and len(ended.lines) == 1)

    ended = by_mpi.start(
        folder, 2, "-q run k2.json --data k2.json", f'exec "{weir}" -q run k2.json --data nowhere'
    )
    expect(
        f"what one lacks fails the run, in one line that names it: {ended}",
        all_exit(ended, 6)
        and len(ended.lines) == 1
        and "process 1 on" in ended.err
        and "nowhere" in ended.err,
    )
    expect("and soon", ended.seconds < 15)

    # A node with another plan, another seed, another launch line: named before anything is trained.
    for out, seed in (("seven", "7"), ("first", "1")):
        subprocess.run([weir, "plan", "model.json", "-K", "2", "-M", "2", "--clip-grad", "0.05",
                        "--seed", seed, "-o", f"{out}.json"], cwd=folder, check=True,
                       capture_output=True)
    subprocess.run([weir, "-q", "run", "seven.json", "--steps", "0", "--save", "w.safetensors"],
                   cwd=folder, check=True, capture_output=True)
    subprocess.run([weir, "plan", "model.json", "-K", "2", "-M", "2", "--clip-grad", "0.05",
                    "--schedule", "gpipe", "-o", "gpipe.json"], cwd=folder, check=True,
                   capture_output=True)
    for other, differs in (("seven.json --steps 2", "seed: 7, process 0 has 1"),
                           ("gpipe.json --steps 2", "plan: "),
                           ("k2.json --steps 3", "steps: 3, process 0 has 2"),
                           ("k2.json --steps 2 --init w.safetensors", "weights to begin with: ")):
        ended = by_mpi.start(folder, 2, "-q run k2.json --steps 2",
                             f'exec "{weir}" -q run {other}')
        expect(f"{other} beside another is refused: {ended}",
               all_exit(ended, 2) and len(ended.lines) == 1 and "process 1 on" in ended.err
               and f"was not given what process 0 was: {differs}" in ended.err)

    # A signal to the second of them alone, once it is under way: all stop after the step.
    terminate = ("(while [ ! -s asked/last-actions/rank-1.txt ]; do sleep 0.1; done; sleep 0.3; "
                 "kill -TERM $$) > /dev/null 2>&1 &")
    ended = by_mpi.start(folder, 2, "-q run k2.json --steps 300000 --checkpoint-every 300000 "
                         "-o asked", terminate)
    expect(f"SIGTERM to any ends all: {ended}",
           all_exit(ended, 143) and len(ended.lines) == 1 and "stopped after step" in ended.err
           and ended.seconds < 20 and (folder / "asked" / "run.json").exists()
           and any((folder / "asked" / "checkpoints").glob("step-*")))

    long_run = "-q run k2.json --steps 300000 --patience 1"
    ended = by_mpi.start(
        folder,
        2,
        long_run,
        "(sleep 0.8; kill -STOP $$; sleep 2.5; kill -CONT $$) > /dev/null 2>&1 &",
    )
    expect(
        f"a process that stands still is missed: {ended}",
        all_exit(ended, 6)
        and len(ended.lines) == 1
        and "process 1 on" in ended.err
        and "no sign of life" in ended.err,
    )
    expect("and soon", ended.seconds < 20)

    # The first one hears, once it goes on, that the next in line has spoken in its place.
    ended = by_mpi.start(
        folder,
        2,
        long_run,
        "(sleep 0.8; kill -STOP $$; sleep 2.5; kill -CONT $$) > /dev/null 2>&1 &",
        on=0,
    )
    expect(
        f"that the first one stands still is said once: {ended}",
        all_exit(ended, 6)
        and len(ended.lines) == 1
        and "process 0 on" in ended.err
        and "no sign of life" in ended.err,
    )

    ended = by_mpi.start(folder, 3, "-q run k2.json --patience 1", "kill -STOP $$")
    expect(
        f"one that stands still before MPI_Init does not hang the others: {ended}",
        all_exit(ended, 6)
        and len(ended.lines) == 1
        and "did not all come within 1.0 s" in ended.err,
    )
    expect("and soon", ended.seconds < 20)

    # Killed once it is under way, however long that takes on a machine that is busy.
    kill = ("(while [ ! -s killed/last-actions/rank-1.txt ]; do sleep 0.1; done; sleep 0.3; "
            "kill -KILL $$) > /dev/null 2>&1 &")
    ended = by_mpi.start(folder, 2, "-q run k2.json --steps 300000 -o killed", kill)
    expect(f"a killed process ends all; the code is then the launcher's: {ended}",
           ended.codes[0] != 0 and ended.seconds < 20)
    left = folder / "killed" / "last-actions" / "rank-1.txt"
    line = left.read_text() if left.exists() else "nothing"
    expect(f"what it was last at is in its folder: {line}", line.startswith("rank 1"))
    expect("a run that ends well leaves none", not (folder / "out" / "last-actions").exists())

    alone = subprocess.run(
        [weir, "--json", "-q", "run", "k1.json", "--steps", "1"], cwd=folder, check=False,
        capture_output=True, text=True
    )
    expect(
        f"without a launcher replicas are threads, to the same bits: {alone.stderr}",
        alone.returncode == 0 and json.loads(alone.stdout)["parameters_sha256"] == replicas,
    )

print("processes: one report, one ending" if not faults else f"{len(faults)} faults")
sys.exit(1 if faults else 0)
