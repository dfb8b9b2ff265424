#!/usr/bin/env python3
"""What the compiler made of every kernel for sm_90 is what exec/cuda/kernels/SASS.csv says: no
kernel keeps anything in local memory, what claims 16-byte accesses has them, and registers and
occupancy are those of the table. Numbers of another release of the compiler are its own: with one
only the claims are checked. Exit 77: no cuobjdump or nvdisasm here.

Usage: sass_test.py TABLE LIBRARY NVCC_VERSION [FOLDER_OF_TOOLS...] [--write]
--write brings the table up to date; the column `threads` (of a block, at most) is ours and stays.
"""
# SPDX-License-Identifier: Apache-2.0
import csv
import os
import re
import shutil
import subprocess
import sys

COLUMNS = ["kernel", "threads", "registers", "shared_bytes", "warps_of_64",
           "loads_16_bytes", "loads_narrower", "stores_16_bytes", "stores_narrower"]
ARCHITECTURE = "sm_90"
# A multiprocessor of capability 9.0 (CUDA C++ Programming Guide, table of technical specifications;
# registers are given to a warp in units of 256; the 1 KiB of shared memory that the system takes of
# a block is counted by cuobjdump). Memory that a launch asks for is not in the code: at most 35 KB
# a block of fused attention's, which its registers limit first.
WARPS, BLOCKS, REGISTERS, REGISTER_UNIT = 64, 32, 65536, 256
SHARED, SHARED_OF_SYSTEM = 233472, 1024


def warps_at_once(threads, registers, shared_bytes):
    """Warps of one kernel that a multiprocessor holds."""
    a_block = (threads + 31) // 32
    a_warp = -(-registers * 32 // REGISTER_UNIT) * REGISTER_UNIT
    by_registers = REGISTERS // a_warp // a_block
    by_shared = SHARED // max(shared_bytes, SHARED_OF_SYSTEM)
    return a_block * min(BLOCKS, WARPS // a_block, by_registers, by_shared)


def readable(names):
    shown = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True,
                           check=True).stdout.splitlines()
    shorter = []
    for name in shown:
        name = re.sub(r"^void ", "", name.replace("weir::cuda::", "").replace(
            "(anonymous namespace)::", ""))
        shorter.append(re.sub(r"\(.*", "", name.replace("(int)", "").replace(
            "(bool)1", "true").replace("(bool)0", "false").replace("(Before)", "")))
    return dict(zip(names, shorter))


def access(instruction):
    """'load' or 'store' and its bytes, 'local', or nothing."""
    found = re.search(r"\b(LDG|STG|LDL|STL|LD|ST)((?:\.\w+)*)\s", instruction)
    if not found:
        return None
    if found[1] in ("LDL", "STL"):
        return "local", 0
    wide = "128" in found[2].split(".")
    return "load" if found[1].startswith("LD") else "store", 16 if wide else 4


def kernels_of(library, tools):
    environment = {**os.environ, "PATH": os.pathsep.join(tools + [os.environ["PATH"]])}

    def dump(what):
        return subprocess.run(
            [shutil.which("cuobjdump", path=environment["PATH"]), what, "-arch", ARCHITECTURE,
             library], capture_output=True, text=True, check=True, env=environment).stdout

    found = {}
    for name, registers, stack, shared, local in re.findall(
            r"Function (\w+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)",
            dump("-res-usage")):
        found[name] = {"registers": int(registers), "shared_bytes": int(shared),
                       "local": int(stack) + int(local), "load": [0, 0], "store": [0, 0]}
    kernel = None
    for line in dump("-sass").splitlines():
        if begins := re.search(r"Function : (\w+)", line):
            kernel = found[begins[1]]
        elif kernel is not None and (seen := access(line)):
            if seen[0] == "local":
                kernel["local"] += 1
            else:
                kernel[seen[0]][0 if seen[1] == 16 else 1] += 1
    names = readable(list(found))
    assert len(set(names.values())) == len(found), "two kernels of one name"
    return {names[name]: kernel for name, kernel in found.items()}


def row_of(name, kernel, threads):
    return dict(zip(COLUMNS, [
        name, threads, kernel["registers"], kernel["shared_bytes"],
        warps_at_once(threads, kernel["registers"], kernel["shared_bytes"]),
        *kernel["load"], *kernel["store"]]))


def read_table(path):
    with open(path, encoding="utf-8") as file:
        first, *rows = file.read().splitlines()
    version = re.search(r"nvcc (\d+\.\d+)", first)[1]
    table = {}
    for row in csv.DictReader(rows):
        table[row["kernel"]] = {
            column: value if column == "kernel" else int(value) for column, value in row.items()}
    return version, table


def faults_of(kernels, table, same_compiler):
    faults = [f"{name}: in the table, not in the library" for name in table if name not in kernels]
    for name, kernel in kernels.items():
        if kernel["local"]:
            faults.append(f"{name}: uses local memory")
        if name not in table:
            faults.append(f"{name}: not in the table")
            continue
        asked = table[name]
        found = row_of(name, kernel, asked["threads"])
        if same_compiler:
            faults += [f"{name}: {column} is {found[column]}, the table says {asked[column]}"
                       for column in COLUMNS if found[column] != asked[column]]
        else:  # unrolling may repeat an access; whether there are any is the claim
            faults += [f"{name}: {column} is {found[column]}, the table says {asked[column]}"
                       for column in ("loads_16_bytes", "stores_16_bytes")
                       if (found[column] > 0) != (asked[column] > 0)]
    return faults


def main(table_path, library, version, *rest):
    release = re.match(r"\d+\.\d+", version)[0]
    tools = [argument for argument in rest if argument != "--write"]
    path = os.pathsep.join(tools + [os.environ["PATH"]])
    for tool in ("cuobjdump", "nvdisasm"):
        if not shutil.which(tool, path=path):
            print(f"sass: no {tool} here")
            return 77
    kernels = kernels_of(library, tools)
    assert len(kernels) > 20, f"{library} has {len(kernels)} kernels for {ARCHITECTURE}"
    if "--write" in rest:
        known = read_table(table_path)[1] if os.path.exists(table_path) else {}
        with open(table_path, "w", encoding="utf-8", newline="") as file:
            file.write(f"# {ARCHITECTURE} by nvcc {release}: sass_test.py --write makes it\n")
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            for name in sorted(kernels):
                threads = known[name]["threads"] if name in known else 256
                writer.writerow(row_of(name, kernels[name], threads))
    written_by, table = read_table(table_path)
    faults = faults_of(kernels, table, written_by == release)
    words = "the table's numbers" if written_by == release else f"claims only: nvcc {release}"
    print("\n".join(faults) or f"sass: {len(kernels)} kernels, {words}")
    return 1 if faults else 0


sys.exit(main(*sys.argv[1:]))
