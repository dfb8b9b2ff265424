#!/usr/bin/env python3
"""The module as Python users meet it: the command's numbers and files, NumPy arrays, one-line
errors."""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import unittest

import numpy
import weir
from case import Case, TINY


class Plans(Case):
    def test_a_plan_saves_the_bytes_the_command_writes(self):
        weir.plan("tiny.json", pp=2, microbatches=4, recompute="except-last", note="hello").save(
            "mine.json"
        )
        self.command("plan", "tiny.json", "-K2", "-M4", "--recompute", "except-last", "--note",
                     "hello", "-o", "its.json")
        self.assertEqual(
            pathlib.Path("mine.json").read_text(), pathlib.Path("its.json").read_text()
        )
        self.assertEqual(weir.load_plan("mine.json"), weir.load_plan("its.json"))

    def test_a_plan_moves_with_its_file(self):
        plan = weir.plan("tiny.json", pp=2, microbatches=4)
        plan.save("deeper/plan.json")
        self.assertEqual(weir.load_plan("deeper/plan.json").to_dict()["model"], "../tiny.json")
        os.chdir("deeper")
        plan.save("again.json")  # made elsewhere, it still knows where its model is
        self.assertEqual(
            pathlib.Path("again.json").read_text(), pathlib.Path("plan.json").read_text()
        )

    def test_a_model_as_the_command_says_it(self):
        self.assertEqual(
            weir.model("tiny.json"), json.loads(self.command("--json", "model", "tiny.json"))
        )

    def test_attention_as_the_command_takes_it(self):
        self.assertEqual(weir.plan("tiny.json", attention="flash").to_dict()["attention"], "fused")
        self.assertNotIn("attention", weir.plan("tiny.json").to_dict())
        self.assertEqual(
            weir.model("tiny.json", attention="fused"),
            json.loads(self.command("--json", "model", "tiny.json", "--attention", "fused")),
        )
        self.refuses(
            weir.UsageError, "attention eager", weir.plan, "tiny.json", attention="eager"
        )

    def test_what_is_wrong_is_one_line(self):
        self.refuses(weir.InputError, "none.json", weir.plan, "none.json")
        self.refuses(weir.InputError, "pp: stage 5 of 7 has none", weir.plan, "tiny.json",
                     pp=7)
        self.refuses(weir.UsageError, "pp 0: expected 1 to 1048576", weir.plan, "tiny.json", pp=0)
        self.refuses(weir.InputError, "boundaries: 9", weir.plan, "tiny.json", pp=2, boundaries=[9])
        self.refuses(weir.UsageError, "dtype int4", weir.plan, "tiny.json", dtype="int4")
        self.refuses(weir.UsageError, "unknown schedule", weir.plan, "tiny.json", schedule="abacus")
        self.refuses(weir.InputError, "colour", weir.Plan.from_dict,
                     weir.plan("tiny.json").to_dict() | {"colour": "red"})
        pathlib.Path("tiny.json").write_text(json.dumps(TINY | {"colour": "red"}))
        plan = weir.plan("tiny.json").to_dict()
        pathlib.Path("tiny.json").write_text(json.dumps(TINY))
        self.refuses(
            weir.InputError, "has changed since the plan was made", weir.Plan.from_dict, plan
        )


class Engines(Case):
    def test_a_forecast_is_the_commands(self):
        plan = weir.plan("tiny.json", pp=2, microbatches=4)
        plan.save("plan.json")
        forecast, trace = weir.simulate(plan)
        self.assertEqual(forecast, json.loads(self.command("--json", "simulate", "plan.json")))
        self.assertEqual(trace.origin, "predicted")
        self.assertEqual(trace.spans.dtype.names[:7],
                         ("rank", "lane", "kind", "stage", "microbatch", "start_ns", "end_ns"))
        self.assertEqual(len(trace.steps), 1)
        self.assertAlmostEqual(
            int(trace.steps["end_ns"][0]) / 1e9, forecast["step_time_s"], delta=1e-9
        )
        for rank in forecast["ranks"]:  # busy time is the compute lane's
            mine = trace.spans[
                (trace.spans["rank"] == rank["rank"]) & (trace.spans["lane"] == "compute")
            ]
            self.assertAlmostEqual(
                int((mine["end_ns"] - mine["start_ns"]).sum()) / 1e9, rank["busy_s"], delta=1e-9
            )
            memory = [
                c for c in trace.counters if c["rank"] == rank["rank"] and c["name"] == "memory"
            ]
            # a peak within one instant has no sample
            highest = int(memory[0]["samples"]["value"].max())
            self.assertTrue(0.5 * rank["peak_memory_bytes"] < highest <= rank["peak_memory_bytes"])
        self.refuses(
            weir.NoFeasiblePlan, "the limit is 1.00 KiB", weir.simulate, plan, memory_limit="1 KiB"
        )
        self.refuses(weir.UsageError, "with its unit", weir.simulate, plan, memory_limit="80")
        self.refuses(weir.InputError, "none.json", weir.simulate, plan, costs="none.json")

    def test_a_sweep_is_the_commands(self):
        mine = weir.sweep(
            "tiny.json", pp=range(1, 3), global_batch_size=8, recompute=["none", "full"]
        )
        its = json.loads(
            self.command("--json", "sweep", "tiny.json", "-K1..2", "--global-batch-size", "8",
                         "--recompute", "none,full")
        )
        del mine["seconds"], its["seconds"]
        self.assertEqual(mine, its)
        best = weir.Plan.from_dict(mine["plans"][0]["plan"])
        forecast, _ = weir.simulate(best)
        self.assertEqual(forecast["step_time_s"], mine["plans"][0]["forecast"]["step_time_s"])
        self.refuses(weir.NoFeasiblePlan, "no plan fits 1.00 KiB", weir.sweep, "tiny.json",
                     microbatches=4, memory_limit="1 KiB")
        self.refuses(weir.UsageError, "global_batch_size", weir.sweep, "tiny.json")
        self.refuses(weir.UsageError, "pp 0", weir.sweep, "tiny.json", pp=0, microbatches=1)

    def test_a_run_and_its_forecast_compare(self):
        plan = weir.plan("tiny.json", pp=2, microbatches=4)
        result, measured = weir.run(plan, steps=4, warmup=1)
        self.assertEqual(
            (result["schema"], len(result["steps"]), measured.origin), ("weir.run/1", 4, "measured")
        )
        self.assertEqual(len(measured.steps), 3)
        self.assertTrue(numpy.all(measured.spans["end_ns"] >= measured.spans["start_ns"]))
        _, predicted = weir.simulate(plan)
        self.assertEqual(predicted.spans["kind"].tolist() * 3, measured.spans["kind"].tolist())
        comparison = weir.compare(predicted, measured)
        self.assertEqual(comparison["schema"], "weir.comparison/1")
        self.assertAlmostEqual(comparison["measured_s"], result["step_time_s"], delta=1e-9)
        measured.save("out")
        self.assertEqual(
            weir.load_trace("out/measured.json").spans.tolist(), measured.spans.tolist()
        )
        self.assertGreater(pathlib.Path("out/measured.pftrace").stat().st_size, 100)
        other = weir.plan("tiny.json", pp=2, microbatches=2)
        self.refuses(
            weir.InputError, "another plan", weir.compare, weir.simulate(other)[1], measured
        )
        self.refuses(weir.UsageError, "expected the forecast first", weir.compare, measured,
                     predicted)

    # Plain gradient descent: what was saved is what was begun with, less the rate times what was
    # dumped; and arrays that Python writes are weights to begin with.
    def test_weights_are_arrays(self):
        plan = weir.plan("tiny.json", pp=2, microbatches=2, optimizer="sgd", learning_rate=0.5)
        weir.run(plan, steps=0, save="before.safetensors")
        weir.run(plan, steps=1, warmup=0, save="after.safetensors", dump="dump.safetensors")
        before, after, dump = (
            weir.load_tensors(f"{name}.safetensors") for name in ("before", "after", "dump")
        )
        self.assertEqual(set(dump) - set(before), {"logits", "tokens"})
        for name, values in before.items():
            self.assertEqual(values.dtype, numpy.float32)
            numpy.testing.assert_allclose(after[name], values - 0.5 * dump[name], atol=1e-6)
        self.assertEqual(dump["tokens"].dtype, numpy.int32)
        weir.save_tensors("again.safetensors", before)
        again, _ = weir.run(plan, steps=0, init="again.safetensors")
        first, _ = weir.run(plan, steps=0)
        self.assertEqual(again["parameters_sha256"], first["parameters_sha256"])

    # Two images of 3 channels on 4 x 4, a class each: what a step of both dumps is the same
    # numbers, 0..255 as -1..1, channels innermost and the class last. In the file labels come
    # first, then channel by channel, as CIFAR-10 has them.
    def test_images_are_arrays(self):
        pathlib.Path("net.json").write_text(json.dumps(
            {"schema": "weir.cnn/1", "network": "resnet", "layers": "blocks", "blocks": [1],
             "width": 4, "stem": "3x3", "image": 4, "classes": 5}))
        images = numpy.arange(96, dtype=numpy.uint8).reshape(2, 3, 4, 4) * 2
        weir.save_images("train.bin", images, [4, 1])
        self.assertEqual(pathlib.Path("train.bin").read_bytes(),
                         b"\4" + images[0].tobytes() + b"\1" + images[1].tobytes())
        plan = weir.plan("net.json", micro_batch_size=2)
        weir.run(plan, steps=1, warmup=0, data="train.bin", dump="dump.safetensors")
        rows = weir.load_tensors("dump.safetensors")["images"]
        rows = rows[numpy.argsort(-rows[:, -1])]  # the order is the seed's
        numpy.testing.assert_array_equal(rows[:, -1], [4, 1])
        expected = images.transpose(0, 2, 3, 1).reshape(2, -1) / numpy.float32(127.5) - 1
        numpy.testing.assert_allclose(rows[:, :-1], expected, atol=1e-6)
        places = numpy.zeros((2, 4, 4), numpy.int64)
        weir.save_images("places.bin", images, places)
        self.assertEqual(pathlib.Path("places.bin").stat().st_size, 2 * (16 + 48))
        refused = [(images / 2, [4, 1], "images: expected an array of uint8"),
                   (images[0], [4], "of 3 dimensions"), (images, [4], "labels: expected integers"),
                   (images, [0.5, 1], "labels: expected integers"),
                   (images, [4, 256], "labels: expected 0 to 255, found 256")]
        for given, labels, line in refused:
            self.refuses(weir.UsageError, line, weir.save_images, "none.bin", given, labels)
        self.assertFalse(pathlib.Path("none.bin").exists())

    def test_runs_refuse_what_the_command_refuses(self):
        plan = weir.plan("tiny.json")
        self.refuses(weir.UsageError, "backend abacus", weir.run, plan, backend="abacus")
        self.refuses(weir.UsageError, "steps -1: expected 0 to 1000000", weir.run, plan, steps=-1)
        self.refuses(weir.InputError, "none.txt", weir.run, plan, data="none.txt")

    # Timed waits need no core: five ranks on any machine.
    def test_the_synthetic_backend_waits(self):
        plan = weir.plan("tiny.json", pp=5, microbatches=4)
        result, trace = weir.run(plan, backend="synthetic", steps=1, warmup=0)
        self.assertIsNone(result["parameters_sha256"])
        self.assertEqual(trace.ranks, 5)

    def test_costs_are_measured_fitted_and_kept(self):
        costs = weir.profile("tiny.json", micro_batch_sizes=[1, 2])
        self.assertEqual(costs.basis, "measured")
        plan = weir.plan("tiny.json", pp=2, microbatches=4, costs=costs)
        _, measured = weir.run(plan, steps=3)
        fitted, quality = weir.calibrate(costs, [measured])
        self.assertEqual(fitted.basis, "calibrated")
        self.assertIn("F", [row["kind"] for row in quality])
        fitted.save("costs.json")
        by_value, _ = weir.simulate(plan, costs=fitted)
        by_file, _ = weir.simulate(plan, costs="costs.json")
        self.assertEqual(by_value, by_file)
        self.assertEqual(by_value["basis"], "calibrated")
        self.refuses(weir.InputError, "expected a measured trace", weir.calibrate, costs,
                     [weir.simulate(plan)[1]])

    def test_the_forecaster_is_judged(self):
        judged = weir.evaluate("tiny.json", fit=1, interval=9, held_out=2, rounds=1, output="out")
        self.assertEqual(judged["schema"], "weir.evaluation/1")
        self.assertEqual(judged["coverage"]["of"], 2)
        self.assertEqual(json.loads(pathlib.Path("out/evaluation.json").read_text()), judged)
        self.refuses(weir.UsageError, "held_out 0: expected 1 to", weir.evaluate, "tiny.json",
                     held_out=0)

if __name__ == "__main__":
    unittest.main()
