# kernel<<<grid, block, shared, stream>>>(arguments) becomes a call of the emulated device (device.hpp).
# SPDX-License-Identifier: Apache-2.0
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
        grid, block, _, stream = arguments(text[begin + 3:end])
        opening = text.index("(", end)
        close = closing(text, opening)
        call = f"emulation::run_grid({grid}, {block}, {stream}, [&] {{ {kernel[1]}{text[opening:close + 1]}; }})"
        text = text[:kernel.start()] + call + text[close + 1:]
    return text


source, target = sys.argv[1:]
with open(source, encoding="utf-8") as file:
    code = rewritten(file.read())
with open(target, "w", encoding="utf-8") as file:
    file.write(code)
