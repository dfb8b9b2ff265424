# kernel<<<grid, block, shared, stream>>>(arguments) becomes a call of the emulated device
# (device.hpp), an array in shared memory one that blocks of a host thread, which follow each
# other, find poisoned, and an argument that the grid shares a reference to the launch's copy.
# SPDX-License-Identifier: Apache-2.0
import pathlib
import re
import sys


def closing(text, opening):
    """Where the parenthesis at `opening` is closed."""
    depth = 0
    for i in range(opening, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if depth == 0:
            return i
    raise SystemExit(f"{sys.argv[1]}: a launch without an end")


def arguments(text):
    parts, depth = [""], 0
    for character in text:
        depth += {"(": 1, "<": 1, "{": 1, ")": -1, ">": -1, "}": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def rewritten(text):
    while (begin := text.find("<<<")) >= 0:
        kernel = re.search(r"(\w+(?:<[^<>;]*>)?)\s*$", text[:begin])
        end = text.index(">>>", begin)
        grid, block, shared, stream = arguments(text[begin + 3:end])
        opening = text.index("(", end)
        close = closing(text, opening)
        body = f"[=] {{ {kernel[1]}{text[opening:close + 1]}; }}"
        name = kernel[1].split("<")[0]
        call = f'weir::emulation::run_grid("{name}", {grid}, {block}, {shared}, {stream}, {body})'
        text = text[:kernel.start()] + call + text[close + 1:]
    text = re.sub(r"const __grid_constant__ ([\w:]+) ", r"const \1& ", text)
    text = re.sub(r"extern __shared__ (\w+) (\w+)\[\];",
                  r"auto* \2 = static_cast<\1*>(weir::emulation::dynamic_shared());", text)
    return re.sub(
        r"__shared__ ([\w:]+) (\w+)((?:\[[^\]]*\])*);",
        r"static thread_local \1 \2\3; weir::emulation::poison_once_a_block(&\2, sizeof(\2));",
        text,
    )


source, target = sys.argv[1:]
pathlib.Path(target).parent.mkdir(parents=True, exist_ok=True)
with open(source, encoding="utf-8") as file:
    code = rewritten(file.read())
with open(target, "w", encoding="utf-8") as file:
    file.write(code)
