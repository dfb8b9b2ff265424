#!/usr/bin/env python3
"""Schedules as Python users make them: from functions, programs and files, judged, timed and
trained by."""
# SPDX-License-Identifier: Apache-2.0
import json
import pathlib
import unittest

import weir
from case import Case, TINY


def gpipe(k, m, v):
    """Every forward, then every backward, in ascending micro-batch order."""
    return [[f"{s}{kind}{i}" for kind in "FB" for i in range(m)] for s in range(k)]


class Schedules(Case):
    def test_a_function_makes_gpipe(self):
        mine, named = weir.schedule(gpipe, 4, 8), weir.schedule("gpipe", 4, 8)
        self.assertEqual(mine.order, named.order)
        self.assertEqual(mine.csv(), named.csv())
        self.assertEqual(mine.name, "gpipe")

    # "vocab" is also what a schedule that divides the vocabulary is called.
    def test_a_functions_name_divides_no_vocabulary(self):
        def vocab(k, m, v):
            return gpipe(k, m, v)

        sizes = {"pp": 2, "microbatches": 4}
        mine = weir.plan("tiny.json", schedule=vocab, boundaries=[2], **sizes)
        self.assertEqual(mine.to_dict()["schedule"], "vocab.csv")
        named = weir.plan("tiny.json", schedule="vocab", **sizes).to_dict()
        self.assertEqual(named["schedule"], "vocab-2")

    # F = 2, I = W = 1 ms, K = 4, M = 8: (M + K - 1)(F + I + W) = 44 ms, bubble (K - 1) / (M + K -
    # 1) = 3 / 11.
    def test_durations_without_a_model(self):
        forecast, trace = weir.schedule(gpipe, 4, 8).time(f_s=2e-3, i_s=1e-3, w_s=1e-3)
        self.assertEqual(forecast["schema"], "weir.forecast/1")
        self.assertAlmostEqual(forecast["step_time_s"], 0.044, delta=1e-12)
        self.assertAlmostEqual(forecast["bubble_fraction_span"], 3 / 11, delta=1e-12)
        compute = trace.spans[trace.spans["lane"] == "compute"]
        self.assertEqual(len(compute), 4 * 8 * 2)
        self.assertEqual(int((compute["end_ns"] - compute["start_ns"]).sum()), 4 * 8 * 4_000_000)
        self.refuses(weir.InputError, "f_s", weir.schedule("gpipe", 2, 2).time, f_s=-1)
        self.refuses(weir.UsageError, "vocabulary", weir.schedule("gpipe", 2, 2).time, s_s=1e-3)
        self.refuses(weir.UsageError, "no plan", trace.save, "out")

    def test_the_validator_judges_functions(self):
        self.refuses(
            weir.InputError, "0B0", weir.schedule, lambda k, m, v: [["0F0", "0F1", "0B0"]], 1, 2
        )
        self.refuses(weir.InputError, "row 1, column 2", weir.schedule,
                     lambda k, m, v: [["0F0", "0X0"]], 1, 1)
        self.refuses(
            weir.InputError, "one action a name", weir.schedule, lambda k, m, v: [["0F0,0B0"]], 1, 1
        )
        self.refuses(
            weir.InputError, "a list of action names", weir.schedule, lambda k, m, v: 7, 1, 1
        )
        self.refuses(weir.InputError, "row 2: has no actions", weir.schedule,
                     lambda k, m, v: [["0F0"], []], 2, 1)
        self.refuses(
            weir.InputError, "were asked for", weir.schedule, lambda k, m, v: gpipe(2, m, v), 3, 2
        )
        self.refuses(weir.UsageError, "a function (K, M, v)", weir.schedule, 7, 1, 1)
        with self.assertRaises(ZeroDivisionError):  # the function's own errors stay what they are
            weir.schedule(lambda k, m, v: 1 / 0, 1, 1)

    def test_a_plan_with_a_function_trains_as_the_named_one(self):
        def mine(k, m, v):
            return gpipe(k, m, v)[:-1] + [[f"{k - 1}{kind}{i}" for i in range(m) for kind in "FB"]]

        plan = weir.plan("tiny.json", pp=2, microbatches=3, schedule=mine)
        self.assertEqual(plan.to_dict()["schedule"], "mine.csv")
        result, _ = weir.run(plan, steps=2)
        named, _ = weir.run(weir.plan("tiny.json", pp=2, microbatches=3, schedule="gpipe"), steps=2)
        self.assertEqual(result["parameters_sha256"], named["parameters_sha256"])
        plan.save("out/plan.json")  # and mine.csv beside it
        self.assertEqual(weir.load_plan("out/plan.json").schedule.order, plan.schedule.order)
        self.assertEqual(
            json.loads(self.command("--json", "simulate", "out/plan.json")), weir.simulate(plan)[0]
        )
        pathlib.Path("out/mine.csv").write_text("0F0,0B0\n")
        self.refuses(weir.InputError, "is another schedule", plan.save, "out/plan.json")

    def test_a_schedule_from_a_program(self):
        plan = weir.plan("tiny.json", pp=1, microbatches=1, schedule="exec:echo 0F0,0B0 #")
        self.assertEqual(plan.schedule.order, [["0F0", "0B0"]])
        self.refuses(weir.InputError, "were asked for", weir.schedule, "exec:echo 0F0,0B0 #", 2, 1)

    def test_slots_are_as_many_as_the_schedule_needs(self):
        pathlib.Path("deep.json").write_text(json.dumps(TINY | {"n_layer": 16}))
        for arguments in (
            {"schedule": "1f1b"},
            {"schedule": "dualpipe", "slots": 7},
            {"schedule": "v-min", "vpp": 2},
        ):
            options = [
                word for key, value in arguments.items() for word in (f"--{key}", str(value))
            ]
            self.command("plan", "deep.json", "-K4", "-M8", *options, "-o", "plan.json")
            self.assertEqual(
                weir.plan("deep.json", pp=4, microbatches=8, **arguments),
                weir.load_plan("plan.json"),
            )

    def test_a_schedule_from_a_file(self):
        weir.schedule(gpipe, 2, 2).save("g.csv")
        plan = weir.plan("tiny.json", pp=2, microbatches=2, schedule="g.csv")
        _, trace = weir.simulate(plan)
        trace.save("deep/out")
        self.assertEqual(
            weir.load_trace("deep/out/predicted.json").plan.to_dict()["schedule"], "../../g.csv"
        )

    def test_the_published_ones_are_listed(self):
        self.assertIn("zb-h1", [row["name"] for row in weir.schedules()])

if __name__ == "__main__":
    unittest.main()
