#!/usr/bin/env python3
"""Whatever ends a call of the module is one of its own classes with one line, or Python's
MemoryError; what a user's function raises stays what it is."""
# SPDX-License-Identifier: Apache-2.0
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import weir

# Runs in a process of its own with so many MiB of addresses above what it has.
STARVED = """
import resource, sys, weir
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + int(sys.argv[1]) * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    weir.simulate(weir.schedule("gpipe", 512, 4096).time(f_s=0.001, b_s=0.002))
except MemoryError as error:
    print("MemoryError:", error)
except weir.Error as error:
    print(type(error).__name__ + ":", error)
else:
    print("done")
"""


class Errors(unittest.TestCase):
    def test_each_class_is_an_error(self):
        for name in ("InputError", "UsageError", "NoFeasiblePlan", "MissingComponent", "RunFailed"):
            self.assertTrue(issubclass(getattr(weir, name), weir.Error), name)
            self.assertEqual(getattr(weir, name).__module__, "weir")
        self.assertTrue(issubclass(weir.Error, Exception))

    def test_a_line_is_one_line_whatever_it_quotes(self):
        with self.assertRaises(weir.InputError) as caught:
            weir.load_plan("no\nsuch\u202eplan.json")
        self.assertEqual(str(caught.exception).splitlines(), [str(caught.exception)])
        self.assertIn("no\\x0asuch", str(caught.exception))

    def test_a_name_longer_than_names_may_be_is_ours_to_tell(self):
        with self.assertRaises(weir.InputError) as caught:
            weir.load_plan("x" * 300)
        self.assertIn("cannot be", str(caught.exception))

    def test_a_list_of_nothing_is_not_given(self):
        for call in (lambda: weir.reports([], output="x.html"),
                     lambda: weir.commands.reports(folders=[], output="x.html")):
            with self.assertRaisesRegex(TypeError, "needs 'folders'"):
                call()

    def test_options_of_the_function_alone_have_its_names(self):
        tiny = {"model_type": "gpt2", "n_embd": 16, "n_head": 2, "n_layer": 3, "vocab_size": 32,
                "n_positions": 8}
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder, "tiny.json")
            model.write_text(json.dumps(tiny))

            def said(function, *words, **options):
                with self.assertRaises(weir.Error) as caught:
                    function(*words, **options)
                return str(caught.exception)

            # One of its own, short or long, and one of the patched fork's, which is not.
            self.assertIn("from needs output PLAN", said(weir.plan, model, **{"from": "megatron"}))
            vocab = weir.plan(model, pp=2, microbatches=4, schedule="vocab-1")
            self.assertIn("has --enable-vocab-parallel)", said(weir.export, vocab, to="torch"))
            # What a shell is to run is the shell's, `simulate` having a -o or not.
            self.assertIn("as weir plan", said(weir.simulate, model))
            self.assertIn("-K 2 -M 4 -o plan.json", said(weir.simulate, model))
            self.assertIn("memory_limit", said(weir.sweep, model, pp=2, microbatches=4,
                                               cluster="dgx-h100", memory_limit="many"))
            self.assertIn("expected at least one number",
                          said(weir.sweep, model, gpus=8, global_batch_size=8,
                               cluster="dgx-h100", offload_optimizer=[]))

    def test_a_time_that_is_none_is_bad_input(self):
        # 1e12 s are beyond 63 bits of nanoseconds.
        with self.assertRaises(weir.Error) as caught:
            weir.schedule("gpipe", 2, 2).time(f_s=1e12)
        self.assertNotIn("fault of weir's own", str(caught.exception))

    def test_memory_that_ends_is_pythons_error(self):
        for mebibytes in (8, 16, 32, 64, 128):
            with self.subTest(mebibytes=mebibytes):
                done = subprocess.run([sys.executable, "-c", STARVED, str(mebibytes)],
                                      capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertRegex(done.stdout, r"^(MemoryError: [^\n]+|done)\n$")

    def test_memory_does_end(self):
        done = subprocess.run([sys.executable, "-c", STARVED, "8"], capture_output=True, text=True)
        self.assertIn("MemoryError: out of memory", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
