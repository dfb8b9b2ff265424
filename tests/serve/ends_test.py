#!/usr/bin/env python3
"""How `weir serve` ends: with Ctrl-C what it runs ends too, no file that is none holds it up, and
what cannot be served is said.
Usage: ends_test.py SOURCE_DIR WEIR"""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

from served import Served

source, weir = pathlib.Path(sys.argv[1]).resolve(), os.path.abspath(sys.argv[2])
models = source / "tools/examples/models"


class Ends(unittest.TestCase):
    def test_a_signal_ends_it_and_its_search(self):
        for signal_, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            with tempfile.TemporaryDirectory() as folder:
                served = Served(weir, folder)
                told = served.ask("job", {"files": [
                    {"name": "c.json", "text": (models / "llama-3-70b.json").read_text()}]})
                events = served.events("POST", "/api/sweep", {
                    "model": told["model"], "cluster": "dgx-h100:32", "global-batch-size": 1024,
                    "seq-length": 8192, "explain": True, "top": 1000, "budget": "10min"})
                self.assertEqual(next(events)[0], "progress")
                self.assertEqual(served.end(signal_), code)

    def test_a_pipe_in_the_folder_is_waited_for_by_nobody(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "tiny.json").write_text((models / "gpt2-mini.json").read_text())
            subprocess.run([weir, "-q", "plan", "tiny.json", "-K", "1", "-M", "1", "-o",
                            "good.json"], cwd=folder, check=True, capture_output=True, timeout=60)
            plan = json.loads((folder / "good.json").read_text())
            (folder / "its-model.json").write_text(json.dumps({**plan, "model": "pipe.json"}))
            os.mkfifo(folder / "pipe.json")
            (folder / "out").mkdir()
            os.mkfifo(folder / "out/run.json")
            served = Served(weir, folder)
            events = served.events("GET", "/api/runs")
            self.assertEqual(next(events)[0], "runs")
            for asked in ("pipe.json", "its-model.json"):
                status, told = served.post("simulate", {"plan": asked})
                self.assertEqual(status, 400, told)
                self.assertIn("pipe.json: expected a file", told["message"])
            self.assertEqual(served.post("simulate", {"plan": "good.json"})[0], 200)
            events.close()
            self.assertEqual(served.end(signal.SIGINT), 130)

    def test_what_cannot_be_served_is_said(self):
        with tempfile.TemporaryDirectory() as folder:
            other = pathlib.Path(folder, "elsewhere")
            other.mkdir()
            pathlib.Path(folder, "here").mkdir()
            pathlib.Path(folder, "here/weir-serve").symlink_to(other)
            for place, code in (("none", 3), ("here", 3)):
                done = subprocess.run([weir, "serve", place], cwd=folder, capture_output=True,
                                      text=True, timeout=30, check=False)
                self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1)
            # A link that nobody has is no use: it does not go on without.
            with open("/dev/full", "w", encoding="ascii") as full:
                done = subprocess.run([weir, "serve", "."], cwd=folder, stdout=full, text=True,
                                      stderr=subprocess.PIPE, timeout=30, check=False)
            self.assertEqual((done.returncode, done.stderr),
                             (6, "weir: standard output: No space left on device\n"))
            reader, writer = os.pipe()
            os.close(reader)
            done = subprocess.run([weir, "serve", "."], cwd=folder, stdout=writer, text=True,
                                  stderr=subprocess.PIPE, timeout=30, check=False)
            os.close(writer)
            self.assertEqual((done.returncode, done.stderr), (128 + signal.SIGPIPE, ""))
            with socket.socket() as taken:
                taken.bind(("127.0.0.1", 0))
                taken.listen()
                port = taken.getsockname()[1]
                done = subprocess.run([weir, "serve", folder, "--port", str(port)], text=True,
                                      capture_output=True, timeout=30, check=False)
                self.assertEqual(done.returncode, 6, done.stderr)


unittest.main(argv=sys.argv[:1])
