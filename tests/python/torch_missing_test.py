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


class Missing(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "tiny.json").write_text(json.dumps(
            {"model_type": "gpt2", "n_embd": 16, "n_head": 2, "n_layer": 3, "vocab_size": 32,
             "n_positions": 8}))
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
        code, line = self.ended(sys.executable, "-m", "weir.profile_torch", "tiny.json")
        self.assertEqual(code, 5)
        self.assertEqual(line, f"weir: torch: not in this Python ({sys.executable})\n")

    def test_options_come_first(self):
        code, lines = self.ended(sys.executable, "-m", "weir.profile_torch", "tiny.json", "--tp",
                                 "0")
        self.assertEqual(code, 2)
        self.assertIn("--tp 0: expected at least 1", lines)


if __name__ == "__main__":
    unittest.main()
