#!/usr/bin/env python3
"""Each shell that is here completes weir's words, as they are typed on a terminal: bash, zsh and
fish. Usage: completion_test.py SOURCE_DIR WEIR"""
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

weir = pathlib.Path(sys.argv[2]).resolve()
SECONDS_MAX = 20  # to answer; a busy machine's zsh takes seconds to read its own functions
# What is typed before the tab, and what then stands in the line.
CASES = {
    "weir simu": "weir simulate ",
    "weir --json expl": "weir --json explain ",
    "weir run --back": "weir run --backend ",
    "weir --json run --back": "weir --json run --backend ",
    "weir export --to mega": "weir export --to megatron ",
    "weir plan --bound": "weir plan --boundaries ",
    "weir doctor --const": "weir doctor --constants ",
    "weir simulate my-pl": "weir simulate my-plan.json ",
    "weir sweep --cluster dgx-h1": "weir sweep --cluster dgx-h100 ",
    "weir sweep --cluster my-pl": "weir sweep --cluster my-plan.json ",
}
SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"],
             "bind 'set enable-bracketed-paste off'; source weir.bash\n"),
    "zsh": (["zsh", "-f", "-i"],
            "unsetopt PROMPT_SP; unset zle_bracketed_paste; fpath=($PWD $fpath); "
            "autoload -Uz compinit; compinit -D -u\n"),
}


class Terminal:
    """A shell on a terminal of its own, wide enough for every line."""

    def __init__(self, words, folder):
        self.pid, self.end = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            environment = {"PATH": f"{weir.parent}:/usr/bin:/bin", "HOME": folder, "TERM": "dumb",
                           "COLUMNS": "200", "LC_ALL": "C.UTF-8", "PS1": "$ "}
            os.execvpe(words[0], words, environment)

    def write(self, text):
        os.write(self.end, text.encode())

    def read_until(self, wanted):
        """What came until it holds `wanted`, or until the time is up."""
        text, end = "", time.time() + SECONDS_MAX
        while wanted not in text and time.time() < end:
            if select.select([self.end], [], [], 0.2)[0]:
                text += re.sub(r"\x1b\[[\d;?]*[A-Za-z]|\a", "",
                               os.read(self.end, 65536).decode(errors="replace"))
        return text

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.end)


def typed(shell, folder):
    """[fault] of a shell that is driven key by key."""
    words, begin = SHELLS[shell]
    terminal, faults = Terminal(words, folder), []
    terminal.write(begin + "echo rea''dy\n")
    if "ready" not in terminal.read_until("ready\r\n"):
        faults.append(f"{shell}: does not begin")
    for start, wanted in CASES.items():
        terminal.write(start + "\t")
        rest = wanted[len(start):]
        seen = terminal.read_until(rest)
        if rest not in seen:
            faults.append(f"{shell}: {start}<tab>: {seen[-200:]!r}, expected {wanted!r}")
        terminal.write("\x15")  # the line is taken back
    terminal.close()
    return faults


def fish(folder):
    faults = []
    for start, wanted in CASES.items():
        done = subprocess.run(["fish", "-N", "-c", f"source weir.fish; complete -C '{start}'"],
                              cwd=folder, text=True, capture_output=True,
                              env=os.environ | {"HOME": folder})
        found = [line.split("\t")[0] for line in done.stdout.splitlines()]
        if found != [wanted.split()[-1]]:
            faults.append(f"fish: {start}<tab>: {found}{done.stderr}, expected {wanted!r}")
    return faults


faults, tried = [], []
with tempfile.TemporaryDirectory() as folder:
    pathlib.Path(folder, "my-plan.json").write_text("{}")
    for shell, name in ("bash", "weir.bash"), ("zsh", "_weir"), ("fish", "weir.fish"):
        if not shutil.which(shell):
            print(f"completion: no {shell} here")
            continue
        script = subprocess.run([weir, "--completion", shell], text=True, capture_output=True,
                                check=True).stdout
        pathlib.Path(folder, name).write_text(script)
        faults += fish(folder) if shell == "fish" else typed(shell, folder)
        tried.append(shell)
print("\n".join(faults) or f"completion: {', '.join(tried)} complete {len(CASES)} lines")
sys.exit(1 if faults else 0)
