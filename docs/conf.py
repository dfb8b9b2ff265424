"""The documentation as a site: Sphinx with MyST and furo (docs/requirements.txt).

    WEIR=build/bin/weir sphinx-build -W docs build/site

The options on the pages of the commands are what the command WEIR itself says of them.
"""
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import re
import subprocess

from docutils import nodes
from docutils.parsers.rst import Directive
from pygments.lexers.special import TextLexer
from sphinx.highlighting import lexers

here = pathlib.Path(__file__).parent
project = "Weir"
copyright = "The Weir maintainers"
version = re.search(r"project\(weir VERSION ([0-9.]+)",
                    (here.parent / "CMakeLists.txt").read_text())[1]
extensions = ["myst_parser"]
myst_heading_anchors = 4
exclude_patterns = ["requirements.txt"]
html_theme = "furo"
html_title = f"Weir {version}"
html_static_path = ["_static"]
html_css_files = ["weir.css"]
html_use_index = False
html_copy_source = False
html_show_sphinx = False
pygments_style = "tango"
pygments_dark_style = "monokai"


class WeirHelp(Directive):
    """`weir help NAME`, as it is when the site is built."""
    required_arguments = 1

    def run(self):
        weir = os.environ.get("WEIR", "weir")
        done = subprocess.run([weir, "help", self.arguments[0]], text=True, capture_output=True)
        if done.returncode != 0:
            raise self.error(f"{weir} help {self.arguments[0]}: {done.stderr}")
        text = done.stdout.strip("\n")
        return [nodes.literal_block(text, text, language="text", classes=["options"])]


def setup(app):
    lexers["csv"] = TextLexer()  # the word is for tests/house/formats_test.py
    app.add_directive("weir-help", WeirHelp)
    return {"parallel_read_safe": True}
