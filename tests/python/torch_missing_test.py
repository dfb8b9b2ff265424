#!/usr/bin/env python3
"""Without PyTorch its modules end by exit code 5 and one line; what is wrong with the options comes
first."""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

COMMAND = os.environ["WEIR_COMMAND"]


class Missing(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "tiny.json").write_text(json.dumps(
            {"model_type": "gpt2", "n_embd": 16, "n_head": 2, "n_layer": 3, "vocab_size": 32,
             "n_positions": 8}))
        (self.folder / "job.json").write_text("{}")
        # One that is found before any other, and cannot be imported.
        (self.folder / "torch.py").write_text("raise ImportError('none')\n")
        self.environment = dict(os.environ, PYTHONPATH=os.pathsep.join(
            [str(self.folder), os.environ["PYTHONPATH"]]))

    def ended(self, *words):
        done = subprocess.run(words, cwd=self.folder, env=self.environment, capture_output=True,
                              text=True)
        self.assertEqual(done.stdout, "")
        return done.returncode, done.stderr

    def test_one_line_and_exit_code_5(self):
        for module, file in (("profile_torch", "tiny.json"), ("run_torch", "job.json"),
                             ("torch_model", "net.py:build")):
            output = ["-o", "net"] if module == "torch_model" else []
            code, line = self.ended(sys.executable, "-m", f"weir.{module}", file, *output)
            self.assertEqual(code, 5)
            self.assertEqual(line, f"weir: torch: not in this Python ({sys.executable})\n")

    def test_the_command_says_it_too(self):
        code, lines = self.ended(COMMAND, "-q", "evaluate", "tiny.json", "--executor", "torch",
                                 "--python", sys.executable, "-o", "out")
        self.assertEqual(code, 5)
        self.assertEqual(lines.splitlines()[-1], f"weir: {sys.executable} -m weir.profile_torch: "
                         "ended with status 5")
        code, lines = self.ended(COMMAND, "-q", "evaluate", "tiny.json", "--executor", "torch",
                                 "--python", "no-such-python", "-o", "out")
        self.assertEqual(code, 5)

    def test_a_module_of_ones_own(self):
        # Of --from torch one line, with the status of what is missing or wrong.
        (self.folder / "net.py").write_text("def build():\n    return None\n")
        for words, code, said in (
                (["net.py:build", "--python", sys.executable, "-o", "p.json"], 5,
                 f"weir: torch: not in this Python ({sys.executable})\n"),
                (["net.py:build", "--python", "no-such-python", "-o", "p.json"], 5, None),
                (["net.py:build"], 2,
                 "weir: --from torch needs -o PLAN: its model is written beside it\n"),
                (["net.py:build", "--costs", "c.json", "-o", "p.json"], 2,
                 "weir: --costs contradicts --from torch: the module says it\n")):
            ended, line = self.ended(COMMAND, "-q", "plan", *words, "--from", "torch")
            self.assertEqual((ended, line.count("\n")), (code, 1), line)
            if said:
                self.assertEqual(line, said)
            self.assertFalse((self.folder / "p.json").exists())
        done = subprocess.run(
            [sys.executable, "-c", "import weir; weir.from_torch(None, None)"], cwd=self.folder,
            env=self.environment, capture_output=True, text=True, check=False)
        self.assertIn("MissingComponent: torch: not in this Python", done.stderr)

    def test_what_python_ends_with_the_command_ends_with(self):
        # What it refuses is bad input, what it lacks is missing, and the rest has failed.
        for status, expected in ((3, 3), (5, 5), (6, 6), (1, 6), (137, 6)):
            program = self.folder / f"ends-{status}"
            program.write_text(f"#!/bin/sh\nexit {status}\n")
            program.chmod(0o755)
            code, lines = self.ended(COMMAND, "-q", "evaluate", "tiny.json", "--executor", "torch",
                                     "--python", program, "-o", "out")
            self.assertEqual(code, expected, lines)
            self.assertIn(f"status {status}", lines)

    def test_options_come_first(self):
        code, lines = self.ended(sys.executable, "-m", "weir.profile_torch", "tiny.json", "--tp",
                                 "0")
        self.assertEqual(code, 2)
        self.assertIn("--tp 0: expected at least 1", lines)


if __name__ == "__main__":
    unittest.main()
