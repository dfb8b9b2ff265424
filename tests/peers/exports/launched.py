"""What a launch line or a script really starts: a launcher in torchrun's place writes it down."""
# SPDX-License-Identifier: Apache-2.0

import json
import os
import re
import subprocess
import sys

TORCHRUN = f"""#!{sys.executable}
import json, os, sys
json.dump([sys.argv[1:], dict(os.environ)], open(os.environ["GATE_OUT"], "w"))
"""
SLURM = """#!/bin/sh
while [ $# -gt 0 ]; do case "$1" in torchrun|bash|python*) exec "$@";; *) shift;; esac; done
"""
NOTHING = "#!/bin/sh\n"


def stand_ins(work):
    os.makedirs(f"{work}/fake", exist_ok=True)
    programs = {"torchrun": TORCHRUN, "srun": SLURM, "module": NOTHING, "nvidia-smi": NOTHING}
    for name, text in programs.items():
        with open(f"{work}/fake/{name}", "w") as file:
            file.write(text)
        os.chmod(f"{work}/fake/{name}", 0o755)
    return f"{work}/fake"


def launched(work, folder, line):
    """What a line starts: the program's arguments, the variables it sets, and the devices."""
    out = f"{work}/launched.json"
    if os.path.exists(out):
        os.unlink(out)
    # A script may look for its program where it stands.
    open(f"{folder}/pretrain_gpt.py", "a").close()
    outer = {
        "PATH": f"{stand_ins(work)}:/usr/bin:/bin",
        "GATE_OUT": out,
        "HOME": work,
        "NODE_RANK": "0",
        "MASTER_ADDR": "localhost",
    }
    run = subprocess.run(
        ["bash", "-c", line], cwd=folder, env=outer, capture_output=True, text=True, timeout=60
    )
    if not os.path.exists(out):
        raise RuntimeError(f"{line}: {run.stderr[-300:]}")
    with open(out) as file:
        argv, env = json.load(file)
    program = next(i for i, word in enumerate(argv) if word.endswith(".py"))
    joined = " ".join(argv[:program]).replace("-", "_").replace("=", " ")
    numbers = [re.search(rf"__{name} (\d+)", joined) for name in ("nproc_per_node", "nnodes")]
    devices = int(numbers[0].group(1)) * (int(numbers[1].group(1)) if numbers[1] else 1)
    kept = {
        k: v for k, v in env.items() if k not in outer and k not in ("PWD", "SHLVL", "_", "OLDPWD")
    }
    return argv[program + 1 :], kept, devices
