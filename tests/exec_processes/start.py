#!/usr/bin/env python3
"""start.py COUNT PROGRAM: the program in COUNT processes that meet by a file; fails when one of them does."""
import pathlib
import subprocess
import sys
import tempfile

count = int(sys.argv[1])
with tempfile.TemporaryDirectory() as folder:
    file = pathlib.Path(folder) / "meet"
    started = [subprocess.Popen([*sys.argv[2:], str(file), str(index), str(count)]) for index in range(count)]
    codes = [process.wait() for process in started]
if any(codes):
    print("exit codes:", codes)
sys.exit(1 if any(codes) else 0)
