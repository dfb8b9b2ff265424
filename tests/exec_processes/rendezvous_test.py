#!/usr/bin/env python3
"""How processes meet by a file, and how they do not: each mistake is one clear line, and no stranger disturbs a run."""
import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time

from launch import ByFile, wait

weir = sys.argv[1]
by_file = ByFile(weir)
MODEL = {"model_type": "gpt2", "n_embd": 32, "n_head": 2, "n_layer": 2, "vocab_size": 64, "n_positions": 16}
RUN = "-q run k2.json --steps 1 --warmup 0"
faults = []


def expect(what, true):
    if not true:
        faults.append(what)
        print("FAILED:", what)


def start(folder, *processes, patience=20):
    """Each process: its options and what its launcher leaves in the environment."""
    begun = time.monotonic()
    started = []
    for options, extra in processes:
        started.append(by_file.process(folder, f"{RUN} --patience {patience} {options}", extra=extra))
    return wait(started, begun)


def refused(folder, what, words, *processes, code=2, environment=None):
    patience = 1 if code == 6 else 20  # what is no failure is not waited for
    ended = start(folder, *((options, environment or {}) for options in processes), patience=patience)
    expect(f"{what}: {ended}",
           set(ended.codes) == {code} and len(ended.lines) == 1 and words in ended.err and ended.seconds < 10)


def pester(file, until):
    """A stranger who reads the port and says what is no greeting, nothing, or too much."""
    while not file.exists() and time.monotonic() < until:
        time.sleep(0.001)
    port = next(int(line.split()[1]) for line in file.read_text().splitlines() if line.startswith("port"))
    open_ones = []
    for said in (b"", b"GET / HTTP/1.1\r\n\r\n", b"weir 1\n\0" + bytes(1000), bytes(range(256)) * 4000):
        one = socket.create_connection(("127.0.0.1", port))
        one.setblocking(False)
        open_ones.append(one)
        try:
            one.send(said)
        except OSError:
            pass
    time.sleep(0.5)
    return open_ones


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    meet = folder / "meet"
    (folder / "model.json").write_text(json.dumps(MODEL))
    subprocess.run([weir, "plan", "model.json", "-K", "2", "-M", "2", "-o", "k2.json"], cwd=folder, check=True,
                   capture_output=True)

    for launcher in (lambda i: {"RANK": str(i), "WORLD_SIZE": "2", "SLURM_PROCID": "0", "SLURM_NTASKS": "1"},
                     lambda i: {"SLURM_PROCID": str(i), "SLURM_NTASKS": "2"}):
        ended = start(folder, *(("--rendezvous meet", launcher(i)) for i in (1, 0)))
        expect(f"torchrun's and Slurm's numbers are known: {ended}", ended.codes == [0, 0])

    stale = ("weir rendezvous 1\nrun 00112233445566778899aabbccddeeff\nprocesses 2\nhost elsewhere\nkernel 1\n"
             "port {}\naddress 127.0.0.1\naddress 127.0.0.2\n")
    with socket.create_server(("127.0.0.1", 0)) as other:  # somebody else has the port now, and says nothing
        for port in (9, other.getsockname()[1]):
            meet.write_text(stale.format(port))
            begun = time.monotonic()
            late = [by_file.process(folder, f"{RUN} {by_file.options(1, 2)}")]
            time.sleep(0.3)  # it reads the file of an earlier run first
            ended = wait([*late, by_file.process(folder, f"{RUN} {by_file.options(0, 2)}")], begun)
            expect(f"an earlier run's file is passed over: {ended}", ended.codes == [0, 0])
        meet.write_text(stale.format(9))
        refused(folder, "and where no new one comes, the line says so", "does not answer", by_file.options(1, 2), code=6)
    meet.unlink()

    pestered = []
    stranger = threading.Thread(target=lambda: pestered.extend(pester(meet, time.monotonic() + 5)))
    stranger.start()
    begun = time.monotonic()
    first = by_file.process(folder, f"{RUN} {by_file.options(0, 2)}")
    time.sleep(0.3)
    ended = wait([first, by_file.process(folder, f"{RUN} {by_file.options(1, 2)}")], begun)
    stranger.join()
    expect(f"strangers at the port disturb nobody: {ended}", ended.codes == [0, 0] and len(pestered) == 4)

    refused(folder, "who never comes is named", "there is no process 1, process 2", by_file.options(0, 3), code=6)
    refused(folder, "who waits for process 0 says so", "process 0 of 3, which writes this file", by_file.options(2, 3),
            code=6)
    refused(folder, "two with one number", "two processes were started as process 1", by_file.options(0, 3),
            by_file.options(1, 3), by_file.options(1, 3))
    refused(folder, "they do not agree how many they are", "one of 3 processes, process 0 as one of 2",
            by_file.options(0, 2), by_file.options(1, 3))
    refused(folder, "no such folder", "folder does not exist", by_file.options(0, 2, "nowhere/meet"), code=3)
    (folder / "text").write_text("something precious\n")
    for index in (0, 1):
        refused(folder, "a file that is something else", "no rendezvous file", by_file.options(index, 2, "text"), code=3)
    expect("and it stays", (folder / "text").read_text() == "something precious\n")

    refused(folder, "a number beyond the count", "from 0 to N - 1", by_file.options(2, 2))
    refused(folder, "one number alone", "go together", "--rendezvous meet --process 0")
    refused(folder, "no number", "needs --process I", "--rendezvous meet")
    refused(folder, "numbers without a file", "are for --rendezvous", "--process 0 --processes 2")
    refused(folder, "sockets without a file", "needs --rendezvous", "--transport sockets")
    refused(folder, "a file and MPI", "does not go with", by_file.options(0, 2) + " --transport mpi")
    refused(folder, "a file under mpirun", "leave out --rendezvous", by_file.options(0, 2),
            environment={"OMPI_COMM_WORLD_SIZE": "2"})

print("rendezvous: each mistake one line" if not faults else f"{len(faults)} faults")
sys.exit(1 if faults else 0)
