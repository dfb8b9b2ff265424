#!/usr/bin/env python3
"""No cycle of #include lines: neither between units (a header and its source) nor between the
folders of a floor. Usage: cycles_test.py SOURCE_DIR"""
# SPDX-License-Identifier: Apache-2.0
import pathlib
import re
import sys

FLOORS = ("plan", "traces", "costmodel", "sim", "exec", "tools")
root = pathlib.Path(sys.argv[1])


def includes():
    """(path, path) of every #include of one of our files in another."""
    for path in sorted(p for floor in FLOORS for p in (root / floor).rglob("*")):
        if path.suffix in {".hpp", ".cpp", ".cu", ".cuh"}:
            for included in re.findall(
                r'^\s*#\s*include\s+"([^"]+/[^"]+)"', path.read_text(), re.M
            ):
                yield path.relative_to(root), pathlib.PurePosixPath(included)


def cycles(edges):
    """Strongly connected components of more than one node, by Tarjan's algorithm."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for follower in sorted(edges.get(node, ())):
            if follower not in index:
                visit(follower)
                low[node] = min(low[node], low[follower])
            elif follower in stack:
                low[node] = min(low[node], index[follower])
        if low[node] == index[node]:
            component = stack[stack.index(node):]
            del stack[stack.index(node):]
            if len(component) > 1:
                found.append(sorted(component))

    sys.setrecursionlimit(10_000)
    for node in sorted(edges):
        if node not in index:
            visit(node)
    return found


def graph(name_of):
    edges, lines = {}, {}
    for source, target in includes():
        a, b = name_of(source), name_of(target)
        if a != b:
            edges.setdefault(a, set()).add(b)
            lines.setdefault((a, b), []).append(f"{source} includes {target}")
    return edges, lines


faults = []
for what, name_of in {
    "units": lambda path: path.with_suffix("").as_posix(),
    "folders": lambda path: path.parent.as_posix(),
}.items():
    edges, lines = graph(name_of)
    for component in cycles(edges):
        faults.append(f"a cycle of {what}: {', '.join(component)}")
        inner = [lines[a, b] for a in component for b in component if b in edges.get(a, ())]
        faults += [f"  {each[0]}" for each in inner]
print("\n".join(faults) or "cycles: none")
sys.exit(1 if faults else 0)
