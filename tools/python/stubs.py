#!/usr/bin/env python3
"""Writes the stubs of the package `weir` (PEP 561) from what its extension says of itself: the
first line of each function's documentation is its signature.
Usage: stubs.py FOLDER_OF_THE_PACKAGE FOLDER"""
# SPDX-License-Identifier: Apache-2.0
import ast
import inspect
import pathlib
import re
import sys

sys.path.insert(0, sys.argv[1])
import weir  # noqa: E402

folder = pathlib.Path(sys.argv[2])
HEAD = '''"""{}"""
# Made by tools/python/stubs.py from the extension.
import os
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union
'''
# What pybind11 calls the types that it converts.
TYPES = {"object": "Any", "os.PathLike": "Union[str, os.PathLike[str]]", "dict": "Dict[str, Any]",
         "list": "List[Any]", "tuple": "Tuple[Any, ...]"}


def signature(name, thing):
    """`name(...) -> type` as Python reads it."""
    line = (thing.__doc__ or "").split("\n", 1)[0].replace("weir.", "")
    for word, meaning in TYPES.items():
        line = re.sub(rf"(?<=: ){re.escape(word)}(?=[,)])|(?<=-> ){re.escape(word)}$", meaning,
                      line)
    ast.parse(f"def {line}: ...")  # what is no Python is a fault of the documentation
    assert line.startswith(f"{name}("), f"{name}: documented as {line}"
    return line


def function(name, thing, indent=""):
    return f"{indent}def {signature(name, thing)}: ...\n"


def class_of(name, thing):
    base = ""
    if issubclass(thing, Exception):
        base = f"({thing.__base__.__name__})"
    elif issubclass(thing, dict):
        base = "(Dict[str, Any])"
    lines = [f"class {name}{base}:\n",
             f"    {(thing.__doc__ or name).strip()!r}\n"]
    for member, value in vars(thing).items():
        if isinstance(value, property):
            lines += ["    @property\n",
                      f"    def {member}(self) -> {returned(value.fget)}: ...\n"]
        elif isinstance(value, staticmethod):
            lines += ["    @staticmethod\n", function(member, value.__func__, "    ")]
        elif callable(value) and not member.startswith("_"):
            lines.append(function(member, value, "    ").replace(f"self: {name}", "self"))
    return "".join(lines)


def returned(getter):
    kind = (getter.__doc__ or "").split("\n", 1)[0].rpartition(" -> ")[2].replace("weir.", "")
    return TYPES.get(kind, kind) or "Any"


def text_of(module):
    things = {name: thing for name, thing in vars(module).items() if not name.startswith("_")}
    classes = [class_of(name, thing) for name, thing in things.items() if inspect.isclass(thing)]
    functions = [function(name, thing) for name, thing in things.items()
                 if callable(thing) and not inspect.isclass(thing)]
    # A class before those that are made of it.
    classes.sort(key=lambda text: not text.startswith("class Error"))
    return "\n".join(classes + functions)


folder.mkdir(parents=True, exist_ok=True)
summary = weir.__doc__.split("\n", 1)[0]
(folder / "__init__.pyi").write_text(
    HEAD.format(summary) + "from . import commands as commands\n\n__version__: str\n\n"
    + text_of(weir))
(folder / "commands.pyi").write_text(
    HEAD.format("Every command of `weir`; each returns what the command prints as JSON.")
    + "from . import Costs, Plan, Schedule, Trace\n\n" + text_of(weir.commands))
(folder / "py.typed").write_text("")
