#!/usr/bin/env python3
"""The module as Python users meet it: the command's numbers, NumPy arrays, schedules from
functions, one-line errors."""
# SPDX-License-Identifier: Apache-2.0
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

import numpy
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


def gpipe(k, m, v):
    """Every forward, then every backward, in ascending micro-batch order."""
    return [[f"{s}{kind}{i}" for kind in "FB" for i in range(m)] for s in range(k)]


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


class Plans(Case):
    def test_a_plan_saves_the_bytes_the_command_writes(self):
        weir.plan("tiny.json", pp=2, microbatches=4, recompute="except-last", note="hello").save(
            "mine.json"
        )
        self.command(
            "plan",
            "tiny.json",
            "-K2",
            "-M4",
            "--recompute",
            "except-last",
            "--note",
            "hello",
            "-o",
            "its.json",
        )
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
        self.refuses(
            weir.InputError,
            "row 1, column 2",
            weir.schedule,
            lambda k, m, v: [["0F0", "0X0"]],
            1,
            1,
        )
        self.refuses(
            weir.InputError, "one action a name", weir.schedule, lambda k, m, v: [["0F0,0B0"]], 1, 1
        )
        self.refuses(
            weir.InputError, "a list of action names", weir.schedule, lambda k, m, v: 7, 1, 1
        )
        self.refuses(
            weir.InputError,
            "row 2: has no actions",
            weir.schedule,
            lambda k, m, v: [["0F0"], []],
            2,
            1,
        )
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

    # A notebook asks an object for a picture of itself (IPython's _repr_svg_).
    def test_schedules_and_traces_show_themselves(self):
        order = weir.schedule("1f1b", 2, 3)
        svg = order._repr_svg_()
        drawn = xml.etree.ElementTree.fromstring(svg)  # nothing in it ends it too early
        # F and B of 3 micro-batches on 2 ranks, each with its tip.
        tips = [tip.text for tip in drawn.iter("{http://www.w3.org/2000/svg}title")]
        self.assertEqual(sorted(tip.split()[0] for tip in tips),
                         sorted(name for row in order.order for name in row))
        self.assertIn(">1f1b<", svg)
        plan = weir.plan("tiny.json", pp=2, microbatches=3)
        _, trace = weir.simulate(plan)
        self.assertIn(f">{plan}<", trace._repr_svg_())
        self.assertIn("predicted", trace._repr_svg_())

    # A plan's cell is its words and its order drawn; a name is text in it, whatever it is.
    def test_plans_show_themselves(self):
        name = "<img src=x onerror=1>&'.json"
        shutil.copy("tiny.json", name)
        plan = weir.plan(name, pp=2, microbatches=3, boundaries=[2])
        cell = plan._repr_html_()
        self.assertNotIn("<img", cell)
        self.assertIn("<td>&lt;img src=x onerror=1&gt;&amp;'.json</td>", cell)
        whole = xml.etree.ElementTree.fromstring(f"<div>{cell}</div>")  # all that begins ends
        said = {row[0].text: row[1].text for row in whole.iter("tr")}
        self.assertEqual((said["ranks, K"], said["micro-batches, M"]), ("2", "3 of 1 sample"))
        # Layers 0 and 1, and the rest up to the last, whose number is one less than their count.
        last = len(plan.layer_keys) - 1
        self.assertEqual(said["layers by stage"], f"0-1, 2-{last}")
        tips = whole.findall(".//{http://www.w3.org/2000/svg}title")
        self.assertEqual(len(tips), sum(map(len, plan.schedule.order)))

    # A search's cell has a row of each plan that the page of the command has, and the front drawn.
    def test_searches_show_themselves(self):
        asked = {"pp": [1, 2], "microbatches": [4], "schedule": ["gpipe", "1f1b"]}
        found = weir.sweep("tiny.json", **asked)
        self.assertIsInstance(found, weir.Search)
        self.assertEqual(found.keys(), weir.commands.sweep("tiny.json", **asked).keys())
        whole = xml.etree.ElementTree.fromstring(f"<div>{found._repr_html_()}</div>")
        rows = list(whole.iter("tr"))
        self.assertEqual(len(rows), 1 + min(5, len(found["plans"])))
        for place, (row, plan) in enumerate(zip(rows[1:], found["plans"]), 1):
            self.assertEqual(row[0].text, f"{place}: {weir.Plan.from_dict(plan['plan'])}")
        texts = [text.text for text in whole.iter("{http://www.w3.org/2000/svg}text")]
        self.assertIn("Step time against memory", texts)
        # A dict of its own, as any other is, which shows what is in it by then.
        self.assertEqual(json.loads(json.dumps(found)), found)
        copied = found.copy()
        self.assertIsInstance(copied, weir.Search)
        self.assertEqual(copied._repr_html_(), found._repr_html_())
        copied["plans"] = copied["plans"][1:]
        shown = xml.etree.ElementTree.fromstring(f"<div>{copied._repr_html_()}</div>")
        self.assertEqual(list(shown.iter("tr"))[1][0].text,
                         f"1: {weir.Plan.from_dict(found['plans'][1]['plan'])}")
        del copied["plans"]
        self.assertIsNone(copied._repr_html_())
        # However many there are, the cell is no longer than that of some 50.
        copied["plans"] = 300 * found["plans"]
        self.assertLess(len(copied._repr_html_()), 40000)

    def test_the_published_ones_are_listed(self):
        self.assertIn("zb-h1", [row["name"] for row in weir.schedules()])


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
            self.command(
                "--json",
                "sweep",
                "tiny.json",
                "-K1..2",
                "--global-batch-size",
                "8",
                "--recompute",
                "none,full",
            )
        )
        del mine["seconds"], its["seconds"]
        self.assertEqual(mine, its)
        best = weir.Plan.from_dict(mine["plans"][0]["plan"])
        forecast, _ = weir.simulate(best)
        self.assertEqual(forecast["step_time_s"], mine["plans"][0]["forecast"]["step_time_s"])
        self.refuses(
            weir.NoFeasiblePlan,
            "no plan fits 1.00 KiB",
            weir.sweep,
            "tiny.json",
            microbatches=4,
            memory_limit="1 KiB",
        )
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
        self.refuses(weir.UsageError, "of one step", weir.compare, measured, predicted)

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

    def test_ctrl_c_ends_a_run_after_its_step_and_keeps_it(self):
        weir.plan("tiny.json", pp=2, microbatches=2).save("long.json")
        code = ("import weir\ntry:\n    weir.run('long.json', steps=10**6, checkpoint_every=10**6, "
                "output='stopped')\nexcept KeyboardInterrupt:\n    print('interrupted')\n")
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE,
                              text=True) as run:
            action = pathlib.Path("stopped/last-actions/rank-0.txt")
            while run.poll() is None and not action.exists():
                time.sleep(0.05)
            time.sleep(0.3)
            run.send_signal(signal.SIGINT)
            out, _ = run.communicate(timeout=60)
        self.assertEqual((run.returncode, out), (0, "interrupted\n"))
        self.assertTrue(json.loads(pathlib.Path("stopped/run.json").read_text())["stopped"])
        self.assertEqual(len(list(pathlib.Path("stopped/checkpoints").iterdir())), 1)

    def test_ctrl_c_ends_a_tune_between_its_runs_and_keeps_them(self):
        code = ("import weir\ntry:\n    weir.tune('tiny.json', global_batch_size=4, pp=1, plans=1, "
                "rounds=10**6, steps=1, output='cut')\n"
                "except KeyboardInterrupt:\n    print('interrupted')\n")
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE,
                              text=True) as tune:
            unfinished = pathlib.Path("cut/unfinished")
            while tune.poll() is None and not (unfinished / "plan-1-round-2.json").exists():
                time.sleep(0.05)
            tune.send_signal(signal.SIGINT)
            out, _ = tune.communicate(timeout=60)
        self.assertEqual((tune.returncode, out), (0, "interrupted\n"))
        self.assertTrue((unfinished / "profile.json").exists())
        # What is kept is whole: a request that goes on would say which file is not.
        for kept in unfinished.glob("*-round-*.json"):
            seal = pathlib.Path(f"{kept}.sha256").read_text().strip()
            self.assertEqual(hashlib.sha256(kept.read_bytes()).hexdigest(), seal)

    def test_ctrl_c_ends_what_forecasts_much_between_two_forecasts(self):
        code = ("import weir\nprint('begins', flush=True)\ntry:\n"
                "    weir.reproduce(cross_validate=True)\n"
                "except KeyboardInterrupt:\n    print('interrupted')\n")
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE,
                              text=True) as forecasts:
            self.assertEqual(forecasts.stdout.readline(), "begins\n")
            time.sleep(1)
            asked = time.monotonic()
            forecasts.send_signal(signal.SIGINT)
            out, _ = forecasts.communicate(timeout=120)
            took = time.monotonic() - asked
        self.assertEqual((forecasts.returncode, out), (0, "interrupted\n"))
        # All of it takes half a minute of two cores.
        self.assertLess(took, 8)

    def test_the_interpreters_end_stops_a_run_of_another_thread(self):
        weir.plan("tiny.json", pp=2, microbatches=2).save("thread.json")
        code = ("import threading, time, weir\n"
                "run = lambda: weir.run('thread.json', steps=10**6, warmup=0, output='left')\n"
                "threading.Thread(target=run, daemon=True).start()\n"
                "import pathlib\n"
                "action = pathlib.Path('left/last-actions/rank-0.txt')\n"
                "while not action.exists(): time.sleep(0.05)\n"
                "time.sleep(0.3)\n")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(json.loads(pathlib.Path("left/run.json").read_text())["stopped"])

    def test_a_child_waits_for_no_run_of_its_parent(self):
        weir.plan("tiny.json", pp=2, microbatches=2).save("forked.json")
        code = ("import os, sys, threading, time, weir\n"
                "waits = {'backend': 'synthetic', 'steps': 10**6, 'warmup': 0}\n"
                "run = threading.Thread(target=weir.run, args=['forked.json'], kwargs=waits,\n"
                "                       daemon=True)\n"
                "run.start()\n"
                "time.sleep(0.5)\n"
                "child = os.fork()\n"
                "if child == 0: sys.exit(0)\n"
                "print(os.waitpid(child, 0)[1])\n")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "0\n"), done.stderr)

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
        self.refuses(
            weir.InputError,
            "expected a measured trace",
            weir.calibrate,
            costs,
            [weir.simulate(plan)[1]],
        )

    def test_the_forecaster_is_judged(self):
        judged = weir.evaluate("tiny.json", fit=1, interval=9, held_out=2, rounds=1, output="out")
        self.assertEqual(judged["schema"], "weir.evaluation/1")
        self.assertEqual(judged["coverage"]["of"], 2)
        self.assertEqual(json.loads(pathlib.Path("out/evaluation.json").read_text()), judged)
        self.refuses(weir.UsageError, "held_out 0: expected 1 to", weir.evaluate, "tiny.json",
                     held_out=0)


if __name__ == "__main__":
    unittest.main()
