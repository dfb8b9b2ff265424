#!/usr/bin/env python3
"""Every sub-command and the function of its name in weir.commands: the same options, and the same
JSON for a request."""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import weir
from case import COMMAND, TINY

SOURCES = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = SOURCES / "tools/examples"

# For each sub-command its requests: (arguments by place, options). A number stands for itself, a
# list of numbers or words is "1,2" on the command line, one under a name of REPEATED is given once
# an item.
CASES = {
    "doctor": [((), {}), ((), {"constants": True})],
    "model": [
        (("tiny.json",), {}),
        (("tiny.json",), {"seq_length": 4, "dtype": "bf16", "attention": "flash"}),
        (("tiny.json",), {"seq_length": 4, "dtype": "bf16", "kernels": True, "gpu": "h100",
                          "micro_batch_size": 2}),
        ((), {"layout": str(EXAMPLES / "layouts/two-layer.json")}),
    ],
    "layout": [
        ((str(EXAMPLES / "layouts/two-layer.json"),), {}),
        ((str(EXAMPLES / "layouts/experts.json"),), {}),
        (("tiny.json",), {"mesh": "d=2,m=2", "rules": "batch:d,heads:m,ffn:m",
                          "micro_batch_size": 2,
                          "cluster": str(EXAMPLES / "clusters/dgx-h100.json")}),
        (("tiny.json",), {"devices": 2, "cluster": str(EXAMPLES / "clusters/dgx-h100.json"),
                          "least_live": True}),
        (("tiny.json",), {"devices": 4, "cluster": str(EXAMPLES / "clusters/dgx-h100.json"),
                          "stages": [1, 2], "microbatches": 4, "schedule": "gpipe"}),
        (("tiny.json",), {"mesh": "d=2", "rules": "batch:d,optimizer:d,gradients:d",
                          "micro_batch_size": 2, "stages": [2],
                          "cluster": str(EXAMPLES / "clusters/dgx-h100.json")}),
    ],
    "plan": [
        (("tiny.json",), {"pp": 2, "microbatches": 4}),
        (("tiny.json",), {"pp": 2, "microbatches": 4, "vpp": 2, "schedule": "interleaved-1f1b",
                          "recompute": "full", "recompute_microbatches": "except-last",
                          "note": "hello", "seed": 3}),
        (("tiny.json",), {"pp": 2, "global_batch_size": 16, "tp": 2, "sequence_parallel": True,
                          "dp": 2, "zero": 1, "boundaries": [2], "slots": 3}),
    ],
    "schedule": [
        ((), {"list": True}),
        (("1f1b",), {"pp": 2, "microbatches": 4,
                     "uniform": "F=18ms,I=18ms,W=9ms,latency=0.6ms"}),
        (("1f1b",), {"grid": "K=2..3,M=1..3", "prove": True}),
    ],
    "profile": [(("tiny.json",), {"micro_batch_size": [1, 2], "pp": 1})],
    "calibrate": [((["out/measured.json"],), {"costs": "profile.json", "output": "costs.json"})],
    "simulate": [
        (("plan.json",), {}),
        (("plan.json",), {"costs": "profile.json", "memory_limit": "1 GiB", "no_barrier": True,
                          "transfers": "batched", "straggler": ["1=1.5", "0=2"]}),
        (("plan.json",), {"mtbf": "3h", "checkpoint_cost": "30s", "restart_cost": "5min", "tp": 2,
                          "dp": 2, "zero": 1, "train_tokens": 1e12}),
    ],
    "fits": [
        (("split.json",), {"cluster": str(EXAMPLES / "clusters/dgx-h100.json")}),
        (("plan.json",), {"memory_limit": "1 GiB", "costs": "profile.json", "train_tokens": 1e12}),
    ],
    "explain": [
        (("plan.json",), {}),
        (("plan.json",), {"costs": "profile.json", "measured": "5ms", "memory_limit": "1 GiB",
                          "plans": "changed", "train_tokens": 1e12}),
        (("split.json",), {"measured": "9ktok/s", "output": "explained.json",
                           "cluster": str(EXAMPLES / "clusters/dgx-h100.json")}),
    ],
    "sweep": [
        (("tiny.json",), {"pp": [1, 2], "global_batch_size": 4, "recompute": ["none", "full"],
                          "baseline": "plan.json", "memory_limit": "1 GiB",
                          "costs": "profile.json"}),
        (("tiny.json",), {"pp": [2], "microbatches": [4], "tp": [1, 2],
                          "schedule": ["gpipe", "zb-h1"]}),
        (("tiny.json",), {"gpus": 4, "global_batch_size": 4, "schedule": ["1f1b"],
                          "cluster": str(EXAMPLES / "clusters/dgx-h100.json"),
                          "explain": True, "pareto": "front.svg"}),
        (("tiny.json",), {"gpus": 4, "global_batch_size": 4, "schedule": ["1f1b"],
                          "cluster": str(EXAMPLES / "clusters/dgx-h100.json"),
                          "layouts": "all"}),
    ],
    "run": [
        (("plan.json",), {"steps": 2, "warmup": 1}),
        (("plan.json",), {"steps": 2, "save": "saved.safetensors", "dump": "dump.safetensors"}),
        (("plan.json",), {"steps": 0, "init": "saved.safetensors"}),
        (("plan.json",), {"backend": "synthetic", "steps": 1, "warmup": 0,
                          "costs": "profile.json"}),
    ],
    "compare": [
        (("out/predicted.json", "out/measured.json"), {}),
        (("plan.json", "other.json"), {}),
    ],
    "tune": [
        (("tiny.json",), {"global_batch_size": 2, "plans": 2, "rounds": 1, "steps": 1,
                          "output": "tuned"}),
    ],
    "evaluate": [
        (("tiny.json",), {"global_batch_size": 4, "fit": 1, "interval": 9, "held_out": 2,
                          "rounds": 1, "seed": 5, "output": "judged"}),
    ],
    "export": [(("plan.json",), {"to": name, "output": "job"}) for name in ("torch", "megatron")] +
              [((str(EXAMPLES / "layouts/transformer-lm.json"),),
                {"to": "dtensor", "output": "placed"})],
    "page": [((), {"output": "page.html"})],
    "reports": [(("judged",), {"output": "reports.html"}),
                ((["judged/report.html", "tuned"],), {"output": "reports.html"})],
    "reproduce": [(("schedule-formulas",), {})],
}
REPEATED = {"straggler"}
# Arguments by place on the command line that Python is given by name: its own places are others.
NAMED = {"calibrate": ("traces",)}

# What was measured is another number each time: of these commands the keys are compared, and the
# values under these; under NEAR they agree within 2 %.
MEASURED = {
    "run": ("schema", "backend", "steps[].loss", "steps[].allocations", "parameters_sha256",
            "oversubscribed", "ranks[].rank"),
    "profile": ("schema", "basis", "machine", "backend", "seq_length", "dtype", "layers[].key",
                "layers[].times[].micro_batch_size"),
    "tune": ("schema", "machine", "candidates", "feasible"),
    "evaluate": ("schema", "machine", "seed", "plans", "sharing", "coverage.nominal",
                 "coverage.of", "coverage.calibration_plans"),
}
# Two runs of one plan hold the same tensors, but where a message and an action meet, their times
# decide which is held first: a few blocks of 512 bytes in some 100 KiB.
NEAR = {"run": ("ranks[].peak_memory_bytes",)}


def output(*arguments):
    """What the command prints."""
    done = subprocess.run([COMMAND, "-q", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def options(name):
    """The long options of a sub-command and its arguments by place, as Python calls them."""
    text = output(name, "--help")
    placed = text.split("Positionals:\n")[1].split("\n\n")[0] if "Positionals:" in text else ""
    named = [option for names in re.findall(r"^  (-\S+)", text, re.M)
             for option in names.split(",") if option.startswith("--")]
    return {option.removeprefix("--").replace("-", "_") for option in named} | set(
        re.findall(r"^  ([a-z]\S*)", placed, re.M))


def of_function(name):
    """The same as the function's documentation names them."""
    documentation = getattr(weir.commands, name).__doc__
    return {name for names in re.findall(r"^([a-z][\w, ]*): ", documentation, re.M)
            for name in names.split(", ")}


def words(places, keys):
    """The request as arguments of the command."""
    line = [word for place in places for word in (place if isinstance(place, list) else [place])]
    for key, value in keys.items():
        option = "--" + key.replace("_", "-")
        if value is True:
            line.append(option)
        elif key in REPEATED:
            line += [word for item in value for word in (option, str(item))]
        else:
            text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
            line += [option, text]
    return line


def at(value, path):
    """The value under a path of keys; under "key[]" those of each in a list."""
    key, _, rest = path.partition(".")
    if not key:
        return value
    if key.endswith("[]"):
        return [at(item, rest) for item in value[key[:-2]]]
    return at(value[key], rest)


def shape(value):
    """Keys in their order, and what kind of value each has."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(item) for item in value[:1]]
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return "number" if number else type(value).__name__


class Commands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.addClassCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        pathlib.Path("tiny.json").write_text(json.dumps(TINY))
        for line in ("plan tiny.json -K 2 -M 4 -o plan.json",
                     "plan tiny.json -K 2 -M 8 -o other.json",
                     "plan tiny.json -K 2 -M 4 --tp 2 --dp 2 -o split.json",
                     "simulate plan.json -o out",
                     "run plan.json --steps 2 -o out", "profile tiny.json -b 1,2"):
            output(*line.split())

    def test_each_sub_command_is_a_function_and_has_a_case(self):
        names = set(re.findall(r"^  ([a-z]+) ", output("--help").split("Subcommands:")[1], re.M))
        names -= {"serve"}  # ends with a signal, and holds its whole process to a folder
        self.assertEqual(names, set(CASES))
        self.assertEqual(names, {name for name in dir(weir.commands) if name[0] != "_"})

    def test_the_options_are_the_same(self):
        # The module draws nothing into a terminal.
        everywhere = {"help", "json", "quiet", "seed", "version", "timeline"}
        for name in CASES:
            with self.subTest(name):
                self.assertEqual(options(name) - everywhere, of_function(name) - everywhere)

    def test_the_json_is_the_same(self):
        for name, requests in CASES.items():
            for places, keys in requests:
                with self.subTest(name, places=places, keys=keys):
                    self.compare(name, places, keys)

    def compare(self, name, places, keys):
        its = json.loads(output("--json", name, *words(places, keys)))
        function = getattr(weir.commands, name)
        named = dict(zip(NAMED.get(name, ()), places))
        mine = function(**named, **keys) if named else function(*places, **keys)
        for result in (its, mine):
            result.pop("seconds", None)  # of a sweep
        if name not in MEASURED:
            self.assertEqual(json.dumps(mine), json.dumps(its))  # the order of keys, too
            return
        self.assertEqual(json.dumps(shape(mine)), json.dumps(shape(its)))
        for path in MEASURED[name]:
            self.assertEqual(at(mine, path), at(its, path), path)
        for path in NEAR.get(name, ()):
            self.assertEqual(len(at(mine, path)), len(at(its, path)), path)
            for one, other in zip(at(mine, path), at(its, path)):
                self.assertEqual(one is None, other is None, path)  # timed waits hold nothing
                if one is not None:
                    self.assertAlmostEqual(one, other, delta=0.02 * other, msg=path)


if __name__ == "__main__":
    unittest.main()
