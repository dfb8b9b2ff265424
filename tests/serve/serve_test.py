#!/usr/bin/env python3
"""`weir serve` over HTTP: who is let in, that nothing outside the folder is read or written, that
answers are the commands' own, that a search tells its front as it grows and ends when it is told
to, and that runs are seen while they train.
Usage: serve_test.py SOURCE_DIR WEIR"""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import random
import shlex
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from served import SCRIPT, Served

source, weir = pathlib.Path(sys.argv[1]).resolve(), os.path.abspath(sys.argv[2])
models = source / "tools/examples/models"


def command(folder, *words):
    done = subprocess.run([weir, "-q", "--json", *words], cwd=folder, capture_output=True,
                          text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Serve(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.around = tempfile.TemporaryDirectory()
        cls.outside = pathlib.Path(cls.around.name)
        cls.folder = cls.outside / "served"
        cls.folder.mkdir()
        cls.served = Served(weir, cls.folder)

    @classmethod
    def tearDownClass(cls):
        cls.served.end()
        cls.around.cleanup()

    def job(self, name="job.sh", text=SCRIPT, **more):
        return self.served.ask("job", {"files": [{"name": name, "text": text}], **more})

    def test_the_page_opens_by_its_link_alone(self):
        path = self.served.link.split(str(self.served.port))[1]
        status, headers, text = self.served.raw("GET", path, headers={"X-Weir-Token": None})
        self.assertEqual(status, 200)
        self.assertIn(b"Read it", text)
        self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
        self.assertEqual(self.served.raw("GET", "/")[0], 403)
        self.assertEqual(self.served.raw("GET", "/?token=" + "0" * 32)[0], 403)

    def test_other_hosts_sites_and_tokens_are_refused(self):
        own = f"127.0.0.1:{self.served.port}"
        body = b'{"plan": "p.json"}'
        for words in ({"Host": "example.org"}, {"Host": f"rebound.example.org:{self.served.port}"},
                      {"Host": None}, {"Origin": "http://example.org"}, {"Origin": "null"},
                      {"X-Weir-Token": None}, {"X-Weir-Token": ""}, {"X-Weir-Token": "0" * 32},
                      {"Content-Type": "text/plain"}, {"Content-Type": None},
                      {"Origin": f"http://127.0.0.1:{self.served.port + 1}"}):
            self.assertEqual(self.served.raw("POST", "/api/simulate", body, words)[0], 403, words)
        # Let in, and refused for the plan that is not there.
        status, _, text = self.served.raw("POST", "/api/simulate", body,
                                          {"Origin": f"http://{own}", "Host": own})
        self.assertEqual(status, 400)
        self.assertIn("p.json", json.loads(text)["message"])
        self.assertEqual(self.served.raw("PUT", "/api/simulate", body)[0], 404)

    def test_only_this_machine_is_listened_to(self):
        """The port is open on 127.0.0.1, and on no other address that this machine has."""
        table = pathlib.Path(f"/proc/{self.served.process.pid}/net/tcp").read_text().split("\n")
        at = f":{self.served.port:04X}"
        listening = [line.split()[1] for line in table if at in line and line.split()[3] == "0A"]
        self.assertEqual(listening, [f"0100007F{at}"])

    def test_nothing_outside_the_folder_is_read(self):
        secret = self.outside / "secret.json"
        secret.write_text((models / "gpt2-mini.json").read_text())
        plan = command(self.outside, "plan", "secret.json", "-K", "1", "-M", "1", "--seq-length",
                       "64")
        for path in (str(secret), "../secret.json", "weir-serve/../../secret.json", ""):
            status, told = self.served.post("simulate", {"plan": path})
            self.assertEqual(status, 400)
            self.assertIn("below the folder", told["message"])
        # By a link, and within what is pasted: the kernel says no.
        link = self.folder / "link.json"
        link.symlink_to(secret)
        status, told = self.served.post("simulate", {"plan": "link.json"})
        self.assertEqual(status, 400)
        self.assertIn("Permission denied", told["message"])
        for path in (str(secret), "../../../secret.json"):
            pasted = json.dumps({**plan, "model": path})
            status, told = self.served.post(
                "job", {"files": [{"name": "plan.json", "text": pasted}]})
            self.assertEqual(status, 400, told)
            self.assertIn("Permission denied", told["message"])
        # The same plan beside its model is read: it was the place that was refused.
        told = self.served.ask("job", {"files": [
            {"name": "plan.json", "text": json.dumps({**plan, "model": "secret.json"})},
            {"name": "secret.json", "text": secret.read_text()}]})
        self.assertEqual(told["kind"], "plan")

    def test_a_script_that_sources_a_file_outside_does_not_get_it(self):
        (self.outside / "sizes.sh").write_text("LAYERS=48\n")
        script = SCRIPT.replace("torchrun", f"source {self.outside}/sizes.sh\ntorchrun")
        script = script.replace("--num-layers 32", "--num-layers $LAYERS")
        status, told = self.served.post("job", {"files": [{"name": "job.sh", "text": script}]})
        self.assertEqual(status, 400, told)

    def test_nothing_is_written_but_below_weir_serve(self):
        before = sorted(path for path in self.outside.rglob("*") if "weir-serve" not in path.parts)
        for name in ("../../x.sh", "/tmp/x.sh", "..", ".hidden", "a/b\\c.sh", "\u00e9.sh"):
            told = self.job(name)
            self.assertTrue(told["plan"].startswith("weir-serve/"), told["plan"])
        for words in ({"job": "..", "name": "x"}, {"job": "/tmp", "name": "x"},
                      {"job": "weir-serve", "name": "x"}, {"job": "weir-serve/..", "name": "x"}):
            self.assertEqual(self.served.post("file", {**words, "text": "x"})[0], 400, words)
        after = sorted(path for path in self.outside.rglob("*") if "weir-serve" not in path.parts)
        self.assertEqual(before, after)

    def test_no_program_is_started(self):
        for words in ({"from": "torch"}, {"python": "/bin/sh"}, {"output": "x"}):
            body = {"files": [{"name": "job.sh", "text": SCRIPT}], **words}
            self.assertEqual(self.served.post("job", body)[0], 400, words)
        # A schedule may be a program's on the command line. Here it could write to one folder.
        program = "exec:touch weir-serve/ran"
        told = self.job()
        name, told_of = list(self.served.events("POST", "/api/sweep", {
            "model": told["result"]["model"], "cluster": "dgx-h100", "gpus": 8,
            "global-batch-size": 8, "schedule": [program]}))[-1]
        self.assertEqual((name, told_of["exit_code"]), ("error", 2), told_of)
        self.assertIn(program, told_of["message"])
        plan = json.loads((self.folder / told["plan"]).read_text())
        model = self.folder / pathlib.Path(told["plan"]).parent / plan["model"]
        body = {"files": [{"name": "p.json", "text": json.dumps({**plan, "schedule": program})},
                          {"name": plan["model"], "text": model.read_text()}]}
        status, refused = self.served.post("job", body)
        self.assertEqual(status, 400, refused)
        self.assertIn("schedule", refused["message"])
        self.assertFalse((self.folder / "weir-serve/ran").exists())

    def test_a_body_is_limited_in_size_and_time(self):
        with socket.create_connection((self.served.host, self.served.port), timeout=30) as sent:
            head = (f"POST /api/job HTTP/1.1\r\nHost: 127.0.0.1:{self.served.port}\r\n"
                    f"X-Weir-Token: {self.served.token}\r\nContent-Type: application/json\r\n")
            sent.sendall((head + f"Content-Length: {17 << 20}\r\n\r\n").encode())
            self.assertIn(b" 413 ", sent.recv(1000).split(b"\r\n")[0] + b" ")
        # In parts, whose sum nobody has said: it is cut off, not kept. 16 MiB are 16,777,216 bytes,
        # 16 parts of a million and 777,216 bytes of the next.
        part = b"%x\r\n" % 1_000_000 + b"a" * 1_000_000 + b"\r\n"
        for parts, status in ((16, b"400"), (17, b"413"), (64, b"413")):
            with socket.create_connection((self.served.host, self.served.port), timeout=30) as sent:
                sent.sendall((head + "Transfer-Encoding: chunked\r\n\r\n").encode())
                try:
                    for _ in range(parts):
                        sent.sendall(part)
                    sent.sendall(b"0\r\n\r\n")
                except OSError:  # closed while we send: what was told before that is there
                    pass
                self.assertEqual(sent.recv(1000)[9:12], status)
        # Nothing more comes: five seconds, and it is given up.
        with socket.create_connection((self.served.host, self.served.port), timeout=30) as sent:
            begun = time.monotonic()
            sent.sendall((head + "Content-Length: 100\r\n\r\n{").encode())
            self.assertEqual(sent.recv(1000)[9:12], b"408")
            self.assertLess(time.monotonic() - begun, 15)
        self.job()  # and it answers as before

    def test_requests_that_are_no_http_end_with_themselves(self):
        """A whole request, its bytes changed by a seeded engine: what is not let in gets no 200,
        and whoever comes next is answered."""
        body = json.dumps({"plan": "p.json"})
        whole = (f"POST /api/simulate HTTP/1.1\r\nHost: 127.0.0.1:{self.served.port}\r\n"
                 f"X-Weir-Token: {self.served.token}\r\nContent-Type: application/json\r\n"
                 f"Content-Length: {len(body)}\r\n\r\n{body}").encode()
        draw, answered = random.Random(48), set()
        for _ in range(500):
            sent = bytearray(whole)
            for _ in range(draw.randint(1, 5)):
                at = draw.randrange(len(sent))
                sent[at:at + draw.randint(0, 3)] = draw.choice(
                    [b"", b"\r\n", b"\0", b":", b" " * 9000, b"%2e/", bytes([draw.randrange(256)])])
            with socket.create_connection((self.served.host, self.served.port), timeout=30) as made:
                try:
                    made.sendall(bytes(sent))
                    made.shutdown(socket.SHUT_WR)
                    told = made.recv(1 << 16)
                except OSError:  # closed while we send
                    told = b""
            answered.add(told[9:12])
        self.assertNotIn(b"200", answered)  # there is no p.json
        self.assertIn(b"400", answered)
        self.job()

    def test_answers_are_the_commands_own(self):
        told = self.job(gpus=16)
        self.assertEqual(told["result"]["schema"], "weir.import/1")
        unknown = [a["name"] for a in told["result"]["arguments"] if a["fate"] == "unknown"]
        self.assertEqual(unknown, ["foo-bar"])
        where = {"plan": told["plan"], "cluster": "dgx-h100"}
        words = [told["plan"], "--cluster", "dgx-h100"]
        for name in ("simulate", "explain"):
            answer = self.served.ask(name, where)
            self.assertEqual(answer["command"], f"weir {name} {' '.join(words)}")
            self.assertEqual(answer["result"], command(self.folder, name, *words))
        # What a change does otherwise is what compare says, but for what changes no step.
        changed = self.served.ask("explain", where)["plans"] + "/what-if-1.json"
        rows = self.served.ask("changes", {"from": told["plan"], "to": changed})["result"]
        own = command(self.folder, "compare", told["plan"], changed, "--cluster", "dgx-h100")
        about = {"schema", "model", "model_sha256", "note", "job", "seed"}
        self.assertTrue(rows)
        self.assertEqual(rows, [{"key": d["key"], "before": d["first"], "after": d["second"]}
                                for d in own["differences"] if d["key"] not in about])
        # In the job's own words: a flag with its number, neither of which was there.
        rebuilt = json.loads((self.folder / told["plan"]).read_text())
        rebuilt["recompute"] = "full"
        other = pathlib.PurePosixPath(told["plan"]).with_name("rebuilt.json")
        (self.folder / other).write_text(json.dumps(rebuilt))
        flags = self.served.ask("changes", {"from": told["plan"], "to": str(other)})["arguments"]
        flags = {row["name"]: (row["before"], row["after"]) for row in flags}
        self.assertEqual(flags["recompute-granularity"], (None, "full"))
        self.assertEqual(flags["recompute-method"], (None, "uniform"))
        # What Megatron-LM does not run has no arguments, and why.
        rebuilt["schedule"] = "zb-h1"
        (self.folder / other).write_text(json.dumps(rebuilt))
        answer = self.served.ask("changes", {"from": told["plan"], "to": str(other)})
        self.assertIsNone(answer["arguments"])
        self.assertIn("row megatron/own-schedules", answer["notes"][0])
        # 1 GiB holds no rank: the forecast is shown, and how the command would end.
        answer = self.served.ask("simulate", {**where, "memory-limit": "1 GiB"})
        self.assertEqual(answer["end"]["exit_code"], 4)
        self.assertEqual(answer["result"]["fits"], "no")
        page = self.served.raw("POST", "/api/page", json.dumps(where).encode())[2].decode()
        self.assertIn('id="planned"', page)
        # Lists, of texts and of numbers: the line that is shown finds the same plans.
        found = list(self.served.events("POST", "/api/sweep", {
            "model": told["result"]["model"], "cluster": "dgx-h100", "gpus": 8, "seq-length": 4096,
            "global-batch-size": 8, "schedule": ["gpipe", "1f1b"], "pp": [2, 4], "tp": "1,2"}))[-1]
        self.assertEqual(found[0], "result", found)
        words = shlex.split(found[1]["command"])
        self.assertEqual(words[words.index("--schedule") + 1], "gpipe,1f1b")
        own = command(self.folder, *words[1:])
        self.assertEqual(own["plans"], found[1]["result"]["plans"])
        self.assertEqual({row["plan"]["pp"] for row in own["plans"]} - {2, 4}, set())

    def test_an_answer_to_what_cannot_be_is_one_line(self):
        for name, body, code, status in (
                ("simulate", {"plan": "none.json"}, 3, 400),
                ("simulate", {"plan": "no\nne.json"}, 3, 400),
                ("calibrate", {"measured": ["no\nne.json=5s"]}, 3, 400),
                ("simulate", {"plan": 7}, 3, 400), ("simulate", {}, 3, 400),
                ("simulate", {"plan": "p.json", "clutser": "x"}, 3, 400),
                ("simulate", {"plan": "p.json", "gpus": 0}, 3, 400),
                ("simulate", {"plan": "p.json", "gpus": 1.5}, 3, 400), ("simulate", [], 3, 400),
                ("job", {"files": []}, 3, 400), ("job", {"files": [{"name": "x"}]}, 3, 400),
                ("nothing", {}, 2, 404)):
            got, told = self.served.post(name, body)
            self.assertEqual((got, told["exit_code"], told["schema"]),
                             (status, code, "weir.error/1"), (name, body, told))
            self.assertNotIn("\n", told["message"])
        self.assertIn("did you mean cluster", self.served.post(
            "simulate", {"plan": "p.json", "clutser": "x"})[1]["message"])
        self.assertEqual(self.served.raw("POST", "/api/simulate", b"{")[0], 400)
        self.assertEqual(self.served.raw("POST", "/api/simulate", b'{"plan": "\xff"}')[0], 400)

    def test_a_model_and_a_log(self):
        told = self.job("config.json", (models / "gpt2.json").read_text())
        self.assertEqual((told["kind"], told["result"]["schema"]), ("model", "weir.model/1"))
        job = self.job()
        lines = [f" iteration {i:8d}/ 100 | elapsed time per iteration (ms): 5000.0 | "
                 "global batch size: 128 |" for i in range(1, 31)]
        log = self.served.ask("file", {"job": job["job"], "name": "job.log",
                                       "text": "\n".join(lines) + "\n"})
        answer = self.served.ask("explain", {"plan": job["plan"], "cluster": "dgx-h100",
                                             "measured": log["result"]["file"]})
        self.assertAlmostEqual(answer["result"]["measured"]["step_time_s"], 5.0)
        # Costs corrected by the log forecast the step that it has; and so it is by the commands.
        measured = [f"{job['plan']}={log['result']['file']}"]
        told = self.served.ask("calibrate", {"measured": measured, "cluster": "dgx-h100"})
        where = {"cluster": "dgx-h100", "costs": told["costs"]}
        corrected = self.served.ask("simulate", {"plan": job["plan"], **where})
        self.assertEqual(corrected["result"]["basis"], "anchored")
        self.assertAlmostEqual(corrected["result"]["step_time_s"], 5.0, places=3)
        words = shlex.split(told["command"])
        self.assertEqual(words[-1], told["costs"])
        own = command(self.folder, *words[1:-1], "own.json")
        self.assertEqual(own["anchor"], told["result"]["anchor"])
        self.assertEqual(corrected["result"], command(
            self.folder, "simulate", job["plan"], "--cluster", "dgx-h100", "--costs", "own.json"))
        # A search by them finds other times than one by built-in costs.
        search = {"model": job["result"]["model"], "baseline": job["plan"], "gpus": 16, "top": 1}
        anchored, builtin = (list(self.served.events("POST", "/api/sweep", {**search, **costs}))[-1]
                             for costs in (where, {"cluster": "dgx-h100"}))
        self.assertEqual(anchored[1]["result"]["baseline"]["forecast"]["step_time_s"],
                         corrected["result"]["step_time_s"])
        self.assertNotAlmostEqual(builtin[1]["result"]["baseline"]["forecast"]["step_time_s"], 5.0)
        # Two figures of one kind are two options of the line; what is refused leaves nothing.
        before = sorted(self.folder.rglob("*"))
        for body, why in (({}, "measured"), ({"measured": []}, "measured"),
                          ({"measured": ["none.json=5s", "more.json=6s"]}, "none.json"),
                          ({"measured": measured, "output": "x"}, "output"),
                          ({"measured": measured, "costs": told["costs"]}, "costs")):
            status, refused = self.served.post("calibrate", body)
            self.assertEqual(status, 400, refused)
            self.assertIn(why, refused["message"])
        self.assertEqual(sorted(self.folder.rglob("*")), before)

    def test_a_trace_stands_beside_its_plan_wherever_it_lies(self):
        # A run somewhere else: its trace names a model that is not below the folder.
        run = self.outside / "run"
        run.mkdir()
        model = (models / "gpt2-mini.json").read_text()
        (run / "gpt2-mini.json").write_text(model)
        command(run, "plan", "gpt2-mini.json", "-K", "2", "-M", "4", "-o", "plan.json")
        command(run, "run", "plan.json", "--backend", "synthetic", "--steps", "4", "--warmup", "1",
                "-o", "out")
        trace = (run / "out/measured.json").read_text()
        steps = sorted(step["end_ns"] - step["start_ns"]
                       for step in json.loads(trace)["weir"]["steps"])
        self.assertEqual(len(steps), 3)
        job = self.served.ask("job", {"files": [
            {"name": "plan.json", "text": (run / "plan.json").read_text()},
            {"name": "gpt2-mini.json", "text": model}]})
        file = self.served.ask("file", {"job": job["job"], "name": "measured.json",
                                        "text": trace})["result"]["file"]
        told = self.served.ask("explain", {"plan": job["plan"], "measured": file})
        self.assertAlmostEqual(told["result"]["measured"]["step_time_s"], steps[1] / 1e9)
        status, _, page = self.served.raw(
            "POST", "/api/page", json.dumps({"plan": job["plan"], "trace": file}).encode())
        self.assertEqual(status, 200)
        planned = page.decode().split('id="planned">')[1].split("</script>")[0]
        self.assertEqual(json.loads(planned)["measured"]["steps"], 3)
        # Of another number of micro-batches, or another model, it is no measurement.
        command(run, "plan", "gpt2-mini.json", "-K", "2", "-M", "8", "-o", "more.json")
        (run / "other.json").write_text(model.replace('"n_layer": ', '"n_layer": 1'))
        command(run, "plan", "other.json", "-K", "2", "-M", "4", "-o", "other-plan.json")
        command(run, "plan", "gpt2-mini.json", "-K", "2", "-M", "4", "--schedule", "gpipe", "-o",
                "filled.json")
        for plan, why in (("more.json", "microbatches: is 8, of the trace's plan 4"),
                          ("filled.json", 'schedule: is "gpipe", of the trace\'s plan "1f1b"'),
                          ("other-plan.json", "another model's than the trace's")):
            done = subprocess.run([weir, "explain", plan, "--measured", "out/measured.json"],
                                  cwd=run, capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn(why, done.stderr)
        # What is no trace that was measured is said by its file.
        command(run, "simulate", "plan.json", "-o", "out")
        for made, why in (("out/predicted.json", "weir.origin: is a prediction"),
                          ("cut.json", "cut.json: weir: is missing")):
            (run / "cut.json").write_text('{"traceEvents": []}')
            done = subprocess.run([weir, "explain", "plan.json", "--measured", made], cwd=run,
                                  capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn(made, done.stderr)
            self.assertIn(why, done.stderr)

    def test_a_search_tells_its_front_and_its_plans(self):
        job = self.job()
        body = {"model": job["result"]["model"], "baseline": job["plan"], "cluster": "dgx-h100",
                "gpus": 16}
        events = list(self.served.events("POST", "/api/sweep", body))
        self.assertEqual(events[-1][0], "result", events[-1])
        fronts = [data["front"] for name, data in events if name == "progress"]
        self.assertTrue(fronts)
        for front in fronts:  # fastest first, and each further one smaller
            steps = [point["step_time_s"] for point in front]
            peaks = [point["peak_memory_bytes"] for point in front]
            self.assertEqual(steps, sorted(steps))
            self.assertEqual(peaks, sorted(peaks, reverse=True))
        told = events[-1][1]
        self.assertEqual(told["result"]["schema"], "weir.sweep/1")
        best = told["result"]["plans"][0]
        # The software that the search was of is the job's; a plan's file names none.
        answer = self.served.ask("simulate", {
            "plan": told["plans"] + "/plan-1.json", "cluster": "dgx-h100",
            "stack": best["forecast"]["stack"]})
        self.assertEqual(answer["result"]["step_time_s"], best["forecast"]["step_time_s"])
        self.assertEqual(events[0][0], "progress")

    def test_a_search_is_stopped_with_what_it_has(self):
        told = self.job("config.json", (models / "llama-3-70b.json").read_text())
        body = {"model": told["model"], "cluster": "dgx-h100:32", "global-batch-size": 1024,
                "seq-length": 8192, "explain": True, "top": 1000, "budget": "10min",
                "may-fit": True}
        begun, last, second = time.monotonic(), None, None
        for name, data in self.served.events("POST", "/api/sweep", body):
            if name == "progress" and second is None and data["front"]:
                # One at a time; and then it is told to stop.
                second = list(self.served.events("POST", "/api/sweep", body))
                self.served.ask("stop", {})
            last = name, data
        self.assertEqual(second[0][0], "error")
        self.assertIn("another search", second[0][1]["message"])
        self.assertEqual(last[0], "result", last)
        self.assertTrue(any("stopped" in note for note in last[1]["notes"]), last[1]["notes"])
        self.assertLess(time.monotonic() - begun, 60)
        # A page that is closed ends its search: another begins as soon as that has ended.
        events = self.served.events("POST", "/api/sweep", body)
        self.assertEqual(next(events)[0], "progress")
        events.close()
        events = self.served.events("POST", "/api/sweep", body)
        self.assertEqual(next(events)[0], "progress")
        self.served.ask("stop", {})
        self.assertNotEqual(list(events)[-1][0], "progress")  # it ends, with a plan or without

    def test_more_files_than_are_looked_at_is_said(self):
        with tempfile.TemporaryDirectory() as folder:
            for number in range(20_001):
                pathlib.Path(folder, str(number)).touch()
            served = Served(weir, folder)
            try:
                rows = next(served.events("GET", "/api/runs"))[1]
            finally:
                served.end()
            self.assertEqual([row["folder"] for row in rows], ["..."])
            self.assertIn("fewer files", rows[0]["why"])

    def test_runs_are_rows_and_appear_when_they_are_written(self):
        (self.folder / "mini.json").write_text((models / "gpt2-mini.json").read_text())
        subprocess.run([weir, "-q", "plan", "mini.json", "-K", "1", "-M", "2", "--seq-length", "32",
                        "-o", "mine.json"], cwd=self.folder, check=True, capture_output=True)
        events = self.served.events("GET", "/api/runs")
        rows = next(events)[1]
        self.assertNotIn("mine", [row["folder"] for row in rows])
        # Waits in place of training, more steps of them than are watched: it is killed.
        waits = subprocess.Popen([weir, "-q", "run", "mine.json", "--backend", "synthetic",
                                  "--steps", "100000", "-o", "waits"], cwd=self.folder,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        training = [next(row for _, rows in events for row in rows
                         if row["folder"] == "waits" and row["steps"] and row["steps"] > steps)
                    for steps in (0, 1)]
        self.assertEqual([(row["state"], row["of"]) for row in training],
                         [("training", 100000)] * 2)
        waits.kill()
        waits.wait()
        row = next(row for _, rows in events for row in rows
                   if row["folder"] == "waits" and row["state"] != "training")
        self.assertEqual(row["state"], "broken off")
        subprocess.run([weir, "-q", "run", "mine.json", "--steps", "3", "-o", "mine"],
                       cwd=self.folder, capture_output=True, check=True, timeout=60)
        self.assertFalse((self.folder / "mine/progress.json").exists())
        run = json.loads((self.folder / "mine/run.json").read_text())
        row = next(row for _, rows in events for row in rows
                   if row["folder"] == "mine" and row["state"] == "ended")
        self.assertEqual((row["steps"], row["backend"]), (3, "cpu"))
        self.assertEqual(row["losses"], [step["loss"] for step in run["steps"]])
        # G = b M D = 2 samples of 32 tokens a step.
        self.assertAlmostEqual(row["tokens_per_s"], 2 * 32 / run["step_time_s"])
        forecast = command(self.folder, "simulate", "mine.json")["step_time_s"]
        self.assertAlmostEqual(row["forecast_step_time_s"], forecast)
        self.assertAlmostEqual(row["error"], forecast / run["step_time_s"] - 1)
        self.assertEqual(row["basis"], "builtin")
        # Costs that are learnt after the run has ended forecast it from then on.
        command(self.folder, "calibrate", "--measured", f"mine.json={run['step_time_s']}s", "-o",
                "costs.json")
        row = next(row for _, rows in events for row in rows
                   if row["folder"] == "mine" and row["basis"] != "builtin")
        events.close()
        learnt = command(self.folder, "simulate", "mine.json", "--costs", "costs.json")
        self.assertEqual((row["basis"], row["forecast_step_time_s"]),
                         (learnt["basis"], learnt["step_time_s"]))
        self.assertEqual(row["basis"], "anchored")


unittest.main(argv=sys.argv[:1])
