#!/usr/bin/env python3
"""docs/guides/api.md is what the module says of itself, every public name of it, and the generator
sees where it is not."""
# SPDX-License-Identifier: Apache-2.0
import pathlib
import subprocess
import sys
import tempfile
import unittest

import weir

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = pathlib.Path(weir.__file__).parent.parent
PAGE = ROOT / "docs/guides/api.md"


def generator(page, *more):
    return subprocess.run([sys.executable, ROOT / "tools/python/api_page.py", PACKAGE, page, *more],
                          capture_output=True, text=True)


class ApiPage(unittest.TestCase):
    def test_it_is_as_the_module_is(self):
        done = generator(PAGE)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_every_public_name_is_on_it(self):
        text = PAGE.read_text()
        for name, thing in vars(weir).items():
            if name.startswith("_") or name == "commands":
                continue
            begins = f"### {name}\n" if isinstance(thing, type) else f"```python\n{name}("
            if isinstance(thing, type) and issubclass(thing, Exception):
                begins = f"- `{name}`: "
            self.assertEqual(text.count(begins), 1, name)

    def test_each_has_its_line(self):
        lines = PAGE.read_text().splitlines()
        for line in lines:
            self.assertFalse(line.endswith(("`: ", "`:")), line)  # a property or an error
        blocks = PAGE.read_text().split("```python\n")[1:]
        for block in blocks:
            signature, _, told = block.partition("```\n\n")
            self.assertRegex(told, r"^[^\s#`]", signature)

    def test_what_is_stale_is_seen(self):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "api.md"
            page.write_text(PAGE.read_text().replace("load_plan", "read_plan"))
            stale = generator(page)
            self.assertEqual(stale.returncode, 1)
            self.assertIn("--write makes it anew", stale.stderr)
            self.assertEqual(generator(page, "--write").returncode, 0)
            self.assertEqual(page.read_text(), PAGE.read_text())


if __name__ == "__main__":
    unittest.main()
