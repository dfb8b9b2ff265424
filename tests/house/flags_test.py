#!/usr/bin/env python3
"""Below tools nothing knows a command-line flag or an exit code: messages there name the plan's and
the cluster's own words, for a Python user has no flags. Usage: flags_test.py SOURCE_DIR"""
# SPDX-License-Identifier: Apache-2.0
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
# Flags of programs that are not ours: read from their scripts, written into files for them.
FOREIGN = {
    "plan/model/readers/foreign_job.cpp": re.compile(r"--[\w-]+"),
}
TOKEN = re.compile(
    r'R"(\w*)\((?P<raw>.*?)\)\1"|"(?P<text>(?:\\.|[^"\\\n])*)"|//[^\n]*|/\*.*?\*/', re.S)
FLAG = re.compile(r"(?<![\w-])--[a-z][\w-]*")
faults = []
for floor in ("plan", "traces", "costmodel", "sim", "exec"):
    for path in sorted((root / floor).rglob("*")):
        if path.suffix not in {".hpp", ".cpp", ".cu", ".cuh"}:
            continue
        name, text = path.relative_to(root).as_posix(), path.read_text()
        for token in TOKEN.finditer(text):
            line = text.count("\n", 0, token.start()) + 1
            words = token["raw"] or token["text"] or ""
            for room, foreign in FOREIGN.items():
                if name.startswith(room):
                    words = foreign.sub("", words)
            for flag in FLAG.findall(words):
                faults.append(f"{name}:{line}: a message names the flag {flag}")
            if re.search(r"\bexit[ _]code\b", token[0]):
                faults.append(f"{name}:{line}: exit codes are the command's")
        code = TOKEN.sub('""', text)
        for match in re.finditer(r"\b(exit_?code\w*|ExitCode|std::_?exit|::_?exit)\b", code, re.I):
            faults.append(f"{name}: {match[0]}: exit codes are the command's")
print("\n".join(faults) or "flags: none below tools")
sys.exit(1 if faults else 0)
