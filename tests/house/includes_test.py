#!/usr/bin/env python3
"""Holds every #include to the house's table: arrows only downward, third-party headers in their rooms."""
import pathlib
import re
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
    "zlib.h": ("traces/kineto/gzip_file",),
    "CLI/": ("tools/weir/",),
    "toml++/": ("plan/import/",),
    "pybind11/": ("tools/python/",),
}
faults = []
for floor, allowed in MAY_INCLUDE.items():
    for path in sorted((root / floor).rglob("*")):
        if path.suffix not in {".hpp", ".cpp", ".cu", ".cuh"}:
            continue
        name = path.relative_to(root).as_posix()
        for number, line in enumerate(path.read_text().splitlines(), 1):
            ours = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            theirs = re.match(r"\s*#\s*include\s+<([^>]+)>", line)
            if ours and ours.group(1).split("/")[0] not in allowed:
                faults.append(f"{name}:{number}: {floor}/ may not include {ours.group(1)}")
            if theirs:
                for prefix, rooms in ROOMS.items():
                    if theirs.group(1).startswith(prefix) and not name.startswith(rooms):
                        faults.append(f"{name}:{number}: <{theirs.group(1)}> belongs in {', '.join(rooms)}")
                if theirs.group(1).startswith("nlohmann/") and path.suffix == ".hpp" and "json" not in path.name:
                    faults.append(f"{name}:{number}: <{theirs.group(1)}> belongs in the JSON readers and writers")
print("\n".join(faults) or "includes: every arrow points downward")
sys.exit(1 if faults else 0)
