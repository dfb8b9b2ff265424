#!/usr/bin/env python3
"""The stubs name what the module has, and each function takes the arguments that its stub lists."""
# SPDX-License-Identifier: Apache-2.0
import ast
import pathlib
import unittest

import weir

STUBS = pathlib.Path(weir.__file__).parent


def public(module):
    return {name for name in vars(module) if not name.startswith("_")}


class Stubs(unittest.TestCase):
    def parsed(self, name):
        return ast.parse((STUBS / name).read_text())

    def test_every_public_name_is_there(self):
        for file, module in (("__init__.pyi", weir), ("commands.pyi", weir.commands)):
            named = {node.name for node in self.parsed(file).body
                     if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
            self.assertEqual(named, public(module) - {"commands"}, file)

    def test_every_member_of_a_class_is_there(self):
        for node in self.parsed("__init__.pyi").body:
            if isinstance(node, ast.ClassDef):
                named = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
                members = public(getattr(weir, node.name)) - {"args", "with_traceback"}
                self.assertEqual(named, members, node.name)

    def test_a_command_knows_each_argument_of_its_stub_and_no_other(self):
        for node in self.parsed("commands.pyi").body:
            if not isinstance(node, ast.FunctionDef):
                continue
            function = getattr(weir.commands, node.name)
            with self.assertRaisesRegex(TypeError, "no argument 'nonesuch'"):
                function(nonesuch=1)
            for argument in node.args.args + node.args.kwonlyargs:
                # A value of no type is refused for its type, not for its name.
                with self.assertRaises(Exception) as caught:
                    function(**{argument.arg: object(), "nonesuch": 1})
                self.assertNotIn(f"no argument '{argument.arg}'", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
