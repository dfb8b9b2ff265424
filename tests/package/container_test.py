#!/usr/bin/env python3
"""The Dockerfile says what can be: what it copies is in the tree and not ignored, what it runs and
names is there, and its last stage has every library that the command is linked to and no compiler.
It is read here, not built: that needs a Docker daemon. Usage: container_test.py SOURCE_DIR WEIR"""
# SPDX-License-Identifier: Apache-2.0
import fnmatch
import json
import pathlib
import re
import subprocess
import sys

source, weir = pathlib.Path(sys.argv[1]), sys.argv[2]
KNOWN = {"FROM", "ENV", "WORKDIR", "COPY", "RUN", "USER", "ENTRYPOINT", "CMD"}
faults = []


def instructions():
    """[(word, rest)] without comments, continued lines joined."""
    text = (source / "Dockerfile").read_text()
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [tuple(line.split(None, 1)) for line in joined.splitlines() if line.strip()]


def stages():
    """[(name, [(word, rest)])] of each FROM."""
    found = []
    for word, rest in instructions():
        if word not in KNOWN:
            faults.append(f"{word}: no instruction of this file's")
        if word == "FROM":
            image, _, name = rest.partition(" AS ")
            if not re.fullmatch(r"debian:\d+-slim", image):
                faults.append(f"FROM {image}: expected Debian's slim image, by its number")
            found.append((name, []))
        found[-1][1].append((word, rest))
    return found


ignored = [line for line in (source / ".dockerignore").read_text().splitlines()
           if line and not line.startswith("#")]
build, last = stages()
for word, rest in build[1]:
    if word == "COPY":
        for path in rest.split()[:-1]:
            if not (source / path).exists():
                faults.append(f"COPY {path}: is not in the tree")
            if any(fnmatch.fnmatch(path, pattern) for pattern in ignored):
                faults.append(f"COPY {path}: .dockerignore leaves it out")
commands = " && ".join(rest for word, rest in build[1] if word == "RUN")
for script, group in re.findall(r"(tools/\S+) (\w+)", commands):
    if not (source / script).is_file():
        faults.append(f"RUN {script}: is not in the tree")
    if not re.search(rf" {group}$", (source / "tools/packages").read_text(), re.M):
        faults.append(f"RUN {script} {group}: tools/packages has no such group")
presets = json.loads((source / "CMakePresets.json").read_text())
for kind, preset in re.findall(r"cmake (--build )?--preset (\w+)", commands):
    known = {each["name"] for each in presets["buildPresets" if kind else "configurePresets"]}
    if preset not in known:
        faults.append(f"--preset {preset}: CMakePresets.json has {sorted(known)}")
cmake = "".join(path.read_text() for path in
                [source / "CMakeLists.txt", *(source / "cmake").glob("*.cmake")])
for option in re.findall(r"-D(\w+)=", commands):
    if not re.search(rf"option\({option}\b|\b{option}\b.*CACHE|set\({option}\b", cmake):
        faults.append(f"-D{option}: no option of this project")
(component,) = re.findall(r"--component (\w+)", commands)
if f"COMPONENT {component}" not in cmake:
    faults.append(f"--component {component}: nothing is installed as it")

prefix = re.search(r"--prefix (\S+)", commands)[1]
copied = [rest for word, rest in last[1] if word == "COPY"]
if copied != [f"--from={build[0]} {prefix} /usr/local"]:
    faults.append(f"COPY {copied}: expected what the first stage installs, from {prefix}")
installed = set(re.search(r"--no-install-recommends (.*?) &&", " ".join(
    rest for word, rest in last[1] if word == "RUN"))[1].split())
if installed & {"g++", "cmake", "ninja-build"} or any(p.endswith("-dev") for p in installed):
    faults.append(f"the last stage installs what only a build needs: {sorted(installed)}")
words = dict(last[1])
if words.get("USER") in (None, "root") or json.loads(words["ENTRYPOINT"]) != ["weir"]:
    faults.append("the last stage runs weir, and not as root")

# The libraries by package, where this is the image's Debian.
number = re.search(r"debian:(\d+)", instructions()[0][1])[1]
release = pathlib.Path("/etc/os-release").read_text()
if "ID=debian" in release and f'VERSION_ID="{number}"' in release:
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", subprocess.run(
        ["readelf", "-d", weir], text=True, capture_output=True, check=True).stdout)
    where = dict(re.findall(r"^\s*(\S+) => (/\S+)", subprocess.run(
        ["ldd", weir], text=True, capture_output=True, check=True).stdout, re.M))
    present = installed | {"libc6", "libgcc-s1", "libstdc++6"}  # an image has these, or gets them
    depends = subprocess.run(["dpkg-query", "-W", "-f", "${Depends}, ", *sorted(installed)],
                             text=True, capture_output=True, check=True).stdout
    present |= set(re.findall(r"(?:^|[,|] )([a-z0-9.+-]+)", depends))
    for library in needed:
        if library not in where:
            continue
        path = pathlib.Path(where[library]).resolve()
        owner = ""
        for name in {path, pathlib.Path(str(path).removeprefix("/usr"))}:
            found = subprocess.run(["dpkg-query", "-S", name], text=True, capture_output=True)
            owner = owner or found.stdout.split(":")[0]
        if owner and owner not in present:
            faults.append(f"{library}: the last stage lacks its package, {owner}")
print("\n".join(faults) or f"container: {len(instructions())} instructions, none built here")
sys.exit(1 if faults else 0)
