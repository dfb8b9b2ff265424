"""A folder of its own with a tiny model in it, the command beside the module, and refusals
as a line."""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import weir

COMMAND = os.environ["WEIR_COMMAND"]
TINY = {
    "model_type": "gpt2",
    "n_embd": 16,
    "n_head": 2,
    "n_layer": 3,
    "vocab_size": 32,
    "n_positions": 8,
}


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        pathlib.Path("tiny.json").write_text(json.dumps(TINY))

    def command(self, *arguments):
        return subprocess.run(
            [COMMAND, *arguments], capture_output=True, text=True, check=True
        ).stdout

    def refuses(self, error, line, function, *arguments, **options):
        with self.assertRaises(error) as caught:
            function(*arguments, **options)
        self.assertIsInstance(caught.exception, weir.Error)
        self.assertIn(line, str(caught.exception))
