#!/usr/bin/env python3
"""The page of the Python module's names, docs/guides/api.md: of each its signature, as the stubs
have it, and the line that it says of itself.
Usage: api_page.py FOLDER_OF_THE_PACKAGE PAGE [--write]; without --write exit code 1 where the page
is another."""
# SPDX-License-Identifier: Apache-2.0
import ast
import pathlib
import re
import sys
import textwrap

WIDTH = 100
MOST = 240  # characters of a signature; a longer one names its arguments alone
HEAD = """# The Python module's names

Made by `tools/python/api_page.py` from the module. A function with the name of a command takes the
options of [that command](../commands/index.md) under their names there: a long list of them stands
here without types, which are in the stubs; `help(weir.sweep)` says what each does. `weir.commands`
has the same functions, which return what the command prints with `--json`.
"""


def arguments(node, bare):
    """`node.args` as text; without types and defaults where it is `bare`."""
    if not bare:
        return ast.unparse(node.args)
    words = [argument.arg for argument in node.args.args]
    if node.args.kwonlyargs:
        words += ["*"] + [argument.arg for argument in node.args.kwonlyargs]
    if node.args.kwarg:
        words.append(f"**{node.args.kwarg.arg}")
    return ", ".join(words)


def signature(node):
    """The function, wrapped: names first, what it returns last."""
    end = f" -> {ast.unparse(node.returns)}"
    text = re.sub(r"(?<=[\w\]])=(?=\S)", " = ", f"{node.name}({arguments(node, bare=False)}){end}")
    if len(text) > MOST:
        text = f"{node.name}({arguments(node, bare=True)}){end}"
    lines = [""]
    for word in re.findall(r".+?(?:, |$)", text):
        if lines[-1] and len(lines[-1]) + len(word.rstrip()) > WIDTH:
            lines.append("    ")
        lines[-1] += word
    return "\n".join(line.rstrip() for line in lines)


def told(thing):
    """The first paragraph of what it says of itself, after its signature."""
    parts = (thing.__doc__ or "").strip().split("\n\n")
    if len(parts) > 1 and re.match(r"\w+\(", parts[0]):
        parts = parts[1:]
    text = " ".join(parts[0].split())
    # As Markdown has it: what would be marks there is text, but for names between backticks.
    pieces = re.split(r"(`[^`]*`)", text)
    pieces[::2] = [re.sub(r"([<*_])", r"\\\1", piece) for piece in pieces[::2]]
    return "".join(pieces)


def filled(text, indent=""):
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, break_long_words=False,
                         break_on_hyphens=False) + "\n"


def function_of(node, thing):
    return f"```python\n{signature(node)}\n```\n\n{filled(told(thing))}"


def class_of(node, thing):
    parts = [f"### {node.name}\n\n{filled(told(thing))}"]
    members = [part for part in node.body if isinstance(part, ast.FunctionDef)]
    properties = [part for part in members if part.decorator_list
                  and ast.unparse(part.decorator_list[0]) == "property"]
    rows = [filled(f"- `{part.name}: {ast.unparse(part.returns)}`: "
                   f"{told(getattr(thing, part.name))}", "  ") for part in properties]
    if rows:
        parts.append("".join(rows))
    for part in members:
        if part not in properties:
            part.args.args = [one for one in part.args.args if one.arg != "self"]
            parts.append(function_of(part, getattr(thing, part.name)))
    return "\n".join(parts)


def page_of(module, stub):
    nodes = ast.parse(stub).body
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    errors = {"Error"} | {node.name for node in classes
                          if [ast.unparse(base) for base in node.bases] == ["Error"]}
    parts = [HEAD, "## Values\n"]
    parts += [class_of(node, getattr(module, node.name)) for node in classes
              if node.name not in errors]
    parts.append("## Functions\n")
    parts += [function_of(node, getattr(module, node.name)) for node in nodes
              if isinstance(node, ast.FunctionDef)]
    parts.append("## Errors\n")
    parts.append("".join(filled(f"- `{node.name}`: {told(getattr(module, node.name))}", "  ")
                         for node in classes if node.name in errors))
    return "\n".join(parts)


def main():
    folder, page = map(pathlib.Path, sys.argv[1:3])
    sys.path.insert(0, str(folder))
    import weir

    text = page_of(weir, (folder / "weir" / "__init__.pyi").read_text())
    if sys.argv[3:] == ["--write"]:
        page.write_text(text)
    elif not page.exists() or page.read_text() != text:
        sys.exit(f"{page}: is not what the module says; --write makes it anew")


if __name__ == "__main__":
    main()
