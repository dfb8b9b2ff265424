#!/usr/bin/env python3
"""Holds every #include to the house: written from the root, arrows only downward, own header first,
third-party headers in their rooms. Usage: includes_test.py SOURCE_DIR COMPILE_COMMANDS"""
# SPDX-License-Identifier: Apache-2.0
import json
import pathlib
import re
import shlex
import sys

root = pathlib.Path(sys.argv[1])
MAY_INCLUDE = {
    "plan": {"plan"},
    "traces": {"traces", "plan"},
    "costmodel": {"costmodel", "traces", "plan"},
    "sim": {"sim", "costmodel", "traces", "plan"},
    "exec": {"exec", "traces", "plan"},
    "tools": {"tools", "sim", "exec", "costmodel", "traces", "plan"},
}
# Rooms of tools that others of its rooms may not see.
HIDDEN = {
    "tools/app/": "tools/weir/",
    "tools/report/": "tools/weir/",
    "tools/python/": "tools/weir/",
}
ROOMS = {  # header prefix -> path prefixes that may include it
    "oneapi/": ("exec/cpu/",),
    "dnnl": ("exec/cpu/",),
    "cuda": ("exec/cuda/", "exec/nccl/"),
    "cublas": ("exec/cuda/",),
    "cudnn": ("exec/cuda/",),
    "cupti": ("exec/cuda/",),
    "nvtx": ("exec/cuda/",),
    "nccl": ("exec/nccl/",),
    "mpi.h": ("exec/processes/mpi/",),
    "Eigen/": ("costmodel/",),
    "tbb/": ("sim/", "tools/"),
    "boost/": ("plan/program/",),
    "openssl/": ("plan/text/",),
    "zlib.h": ("traces/kineto/gzip_file", "tools/report/pdf"),
    "CLI/": ("tools/weir/",),
    "toml++/": ("tools/jobs/toml/",),
    "yaml-cpp/": ("tools/jobs/job/",),
    "pybind11/": ("tools/python/",),
    "httplib.h": ("tools/serve/",),
    "linux/landlock.h": ("tools/serve/confine",),
    # Ranks meet and send by MPI and NCCL alone.
    "sys/socket.h": (),
    "netinet/": (),
}
faults = []


def check_ours(name, number, included):
    floor = name.split("/")[0]
    if included.split("/")[0] not in MAY_INCLUDE[floor]:
        faults.append(f"{name}:{number}: {floor}/ may not include {included}")
    elif "/" not in included or ".." in included or not (root / included).exists():
        faults.append(f"{name}:{number}: {included} is no path from the root")
    for room, hidden in HIDDEN.items():
        if name.startswith(room) and included.startswith(hidden):
            faults.append(f"{name}:{number}: {room} may not include {included}")


def check_theirs(name, number, included):
    for prefix, rooms in ROOMS.items():
        if included.startswith(prefix) and not name.startswith(rooms):
            where = ", ".join(rooms) or "no room"
            faults.append(f"{name}:{number}: <{included}> belongs in {where}")
    # Whoever hands JSON on without reading it needs <nlohmann/json_fwd.hpp> only.
    if included == "nlohmann/json.hpp" and name.endswith(".hpp") and "json" not in name:
        faults.append(f"{name}:{number}: <{included}> belongs in the JSON readers and writers")


def check_own_header_first(path, name, included):
    """So each header is compiled alone, by its own unit, and no other proof is needed."""
    own = path.with_suffix(".hpp")
    if path.suffix != ".cpp" or not own.exists():
        return
    own_name = own.relative_to(root).as_posix()
    if not included or included[0] != own_name:
        faults.append(f"{name}: its first #include is not its own header, {own_name}")


for floor in MAY_INCLUDE:
    for path in sorted((root / floor).rglob("*")):
        if path.suffix not in {".hpp", ".cpp", ".cu", ".cuh"}:
            continue
        name, every = path.relative_to(root).as_posix(), []
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if match := re.match(r'\s*#\s*include\s+(["<])([^">]+)[">]', line):
                every.append(match[2])
                # Quotes are for our own, and for CUDA's headers that nothing promises to be there.
                if match[1] == '"' and (root / match[2].split("/")[0]).is_dir():
                    check_ours(name, number, match[2])
                else:
                    check_theirs(name, number, match[2])
        check_own_header_first(path, name, every)

# The build enforces the table: a unit is compiled with the include roots of what it may include.
for command in json.loads(pathlib.Path(sys.argv[2]).read_text()):
    unit = pathlib.Path(command["file"])
    # A unit of a unity build is the sources that it includes.
    joined = [unit]
    if "/Unity/" in str(unit):
        joined = re.findall(r'#include "([^"]+)"', unit.read_text())
    words = shlex.split(command["command"])
    roots = {pathlib.Path(word[2:]).name for word in words if word.startswith("-I")}
    for name in map(pathlib.Path, joined):
        if not name.is_relative_to(root):
            continue
        name = name.relative_to(root)
        if (
            f"-I{root}" in words
            or name.parts[0] in MAY_INCLUDE
            and not roots & set(MAY_INCLUDE) <= MAY_INCLUDE[name.parts[0]]
        ):
            faults.append(f"{name}: compiled with the include roots {sorted(roots)}")
print("\n".join(faults) or "includes: every arrow points downward")
sys.exit(1 if faults else 0)
