#!/usr/bin/env python3
"""Ctrl-C and the interpreter's end stop what the module does soon, and leave what there is."""
# SPDX-License-Identifier: Apache-2.0
import hashlib
import json
import pathlib
import signal
import subprocess
import sys
import time
import unittest

import weir
from case import Case


class Interrupts(Case):
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

if __name__ == "__main__":
    unittest.main()
