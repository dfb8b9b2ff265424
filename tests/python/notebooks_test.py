#!/usr/bin/env python3
"""Executes every notebook from its folder, without a display; an error in a cell is a failure. They
are kept without outputs."""
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import tempfile
import unittest

import nbformat
from nbclient import NotebookClient

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "notebooks"


class Notebooks(unittest.TestCase):
    def setUp(self):  # the kernel's own files stay out of the home folder
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        os.environ |= {
            "IPYTHONDIR": folder.name,
            "JUPYTER_RUNTIME_DIR": folder.name,
            "MPLCONFIGDIR": folder.name,
            "MPLBACKEND": "module://matplotlib_inline.backend_inline",
            "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        }

    def test_each_runs_to_its_end(self):
        notebooks = sorted(FOLDER.glob("*.ipynb"))
        self.assertTrue(notebooks)
        for path in notebooks:
            with self.subTest(path.name):
                notebook = nbformat.read(path, as_version=4)
                nbformat.validate(notebook)
                code = [cell for cell in notebook.cells if cell.cell_type == "code"]
                self.assertEqual(
                    [cell.outputs for cell in code], [[]] * len(code), "commit it without outputs"
                )
                NotebookClient(  # a kernel takes a busy machine more than the usual minute
                    notebook, timeout=200, startup_timeout=180,
                    resources={"metadata": {"path": FOLDER}}
                ).execute()
                pictures = [
                    output
                    for cell in code
                    for output in cell.outputs
                    if "image/png" in output.get("data", {})
                ]
                self.assertGreaterEqual(len(pictures), 3)
                if "WEIR_KEEP_NOTEBOOKS" in os.environ:  # to look at what was drawn
                    nbformat.write(
                        notebook, pathlib.Path(os.environ["WEIR_KEEP_NOTEBOOKS"]) / path.name
                    )


if __name__ == "__main__":
    unittest.main()
