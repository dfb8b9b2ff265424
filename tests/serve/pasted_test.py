#!/usr/bin/env python3
"""What can be pasted into `weir serve`, over HTTP: a script, a dump of arguments, arguments alone,
TOML, two kinds of YAML, a config.json; each becomes the plan that `weir plan --from` makes of the
file, without being told what it is. And the front of a long search grows while it searches.
Usage: pasted_test.py SOURCE_DIR WEIR"""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from served import SCRIPT, Served

source, weir = pathlib.Path(sys.argv[1]).resolve(), os.path.abspath(sys.argv[2])
seeds = source / "tests/fuzz/seeds"
models = source / "tools/examples/models"
SWIFT = ("NPROC_PER_NODE=2 megatron sft --model Qwen/Tiny --pipeline_model_parallel_size 2 "
         "--micro_batch_size 1 --global_batch_size 8 --max_length 64\n")
# Whose it is, a name that says nothing, its text, and what it leaves open.
KINDS = [("megatron", "pasted", SCRIPT, {}),
         ("megatron", "pasted", (seeds / "megatron/dump.txt").read_text(), {}),
         ("megatron", "pasted", (seeds / "megatron/args.txt").read_text(), {"gpus": 16}),
         ("torchtitan", "job.toml", (seeds / "torchtitan/8b.toml").read_text(), {"gpus": 16}),
         ("neox", "small.yml", (seeds / "neox/small.yml").read_text(), {"gpus": 4}),
         ("nemo", "small.yaml", (seeds / "nemo/small.yaml").read_text(), {"gpus": 4})]


class Pasted(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.around = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.around.name)
        cls.served = Served(weir, cls.folder)

    @classmethod
    def tearDownClass(cls):
        cls.served.end()
        cls.around.cleanup()

    def test_a_model_that_a_job_names_is_not_looked_for_outside(self):
        # The command would find it in the cache, which this machine's user has.
        cached = self.folder.parent / f"{self.folder.name}-hub"
        try:
            for part in ("refs", "snapshots/a1"):
                (cached / "models--Qwen--Tiny" / part).mkdir(parents=True)
            (cached / "models--Qwen--Tiny/refs/main").write_text("a1")
            shutil.copy(models / "gpt2-mini.json",
                        cached / "models--Qwen--Tiny/snapshots/a1/config.json")
            os.environ["HF_HUB_CACHE"] = str(cached)
            with tempfile.TemporaryDirectory() as folder:
                served = Served(weir, pathlib.Path(folder))
                try:
                    status, _, told = served.raw("POST", "/api/job", json.dumps({"files": [
                        {"name": "pasted", "text": SWIFT}]}).encode())
                finally:
                    served.end()
            self.assertEqual(status, 400)
            self.assertIn("give its configuration", told.decode())
            self.assertNotIn(str(cached), told.decode())
        finally:
            os.environ.pop("HF_HUB_CACHE", None)
            shutil.rmtree(cached, ignore_errors=True)

    def test_each_kind_of_job_is_the_plan_of_the_command(self):
        for tool, name, text, more in KINDS:
            with self.subTest(tool=tool, text=text[:40]), tempfile.TemporaryDirectory() as folder:
                told = self.served.ask("job", {"files": [{"name": name, "text": text}], **more})
                self.assertEqual(told["kind"], "plan")
                self.assertEqual(told["result"]["schema"], "weir.import/1")
                its = json.loads((self.folder / told["plan"]).read_text())
                pathlib.Path(folder, name).write_text(text)
                words = [word for key, value in more.items() for word in (f"--{key}", str(value))]
                done = subprocess.run(
                    [weir, "-q", "plan", name, "--from", tool, *words, "-o", "own.json"],
                    cwd=folder, capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                own = json.loads(pathlib.Path(folder, "own.json").read_text())
                for plan in (its, own):  # the model's file is called otherwise
                    plan.pop("model")
                self.assertEqual(its, own)

    def test_a_front_grows(self):
        told = self.served.ask("job", {"files": [
            {"name": "config.json", "text": (models / "llama-3-70b.json").read_text()}]})
        self.assertEqual(told["kind"], "model")
        body = {"model": told["model"], "cluster": "dgx-h100:32", "global-batch-size": 1024,
                "seq-length": 8192, "explain": True, "top": 1000, "budget": "60s",
                "may-fit": True}
        fronts, done, stopped = [], [], False
        for name, data in self.served.events("POST", "/api/sweep", body):
            if name != "progress" or not data["front"]:
                continue
            points = [(p["step_time_s"], p["peak_memory_bytes"]) for p in data["front"]]
            if not fronts or points != fronts[-1]:
                fronts.append(points)
            done.append(data["done"])
            if len(fronts) >= 3 and not stopped:
                stopped = True
                self.served.ask("stop", {})
        self.assertGreaterEqual(len(fronts), 3)
        self.assertEqual(done, sorted(done))
        # What was found stays found: each point is kept, or beaten by one that came.
        for before, after in zip(fronts, fronts[1:]):
            for step, peak in before:
                self.assertTrue(any(s <= step and p <= peak for s, p in after), (before, after))


unittest.main(argv=sys.argv[:1])
