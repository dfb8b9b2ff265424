"""What is attacked: a command, what it must leave behind however it ends, and how it goes on."""
# SPDX-License-Identifier: Apache-2.0
import json
import time

from started import run, working_in

MODEL = {"model_type": "gpt2", "n_embd": 32, "n_head": 2, "n_layer": 3, "vocab_size": 128,
         "n_positions": 8, "resid_pdrop": 0.1}
STEPS = 40
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
       "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_plm_rsh_agent": "",
       "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
       "OMPI_MCA_hwloc_base_binding_policy": "none", "OMPI_MCA_btl": "self,vader",
       "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}
ENDINGS = {".html": b"</html>", ".svg": b"</svg>", ".json": b"}", ".csv": b"\n"}


class Broken(Exception):
    """What must hold does not."""


def require(holds, what):
    if not holds:
        raise Broken(what)


def read_json(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise Broken(f"{path.name} cannot be read: {error}") from error


def require_whole(path):
    """A file is whole where its format ends; JSON where it parses."""
    if path.suffix == ".json":
        read_json(path)
        return
    end = ENDINGS.get(path.suffix, b"")
    require(path.read_bytes().rstrip(b"\n").endswith(end.strip()), f"{path.name} is cut off")


def require_whole_tensors(path):
    """Eight bytes of length, so long a header, then the tensors up to the file's end."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    end = max(tensor["data_offsets"][1] for name, tensor in header.items()
              if name != "__metadata__")
    require(len(data) == 8 + length + end, f"{path} is cut off")


def require_ended(folder, patience):
    """None of the processes that a command started there is left after so many seconds."""
    until = time.monotonic() + patience
    while left := working_in(folder):
        require(time.monotonic() < until, f"processes {left} go on")
        time.sleep(0.05)


class Work:
    """In a folder with the models and plans of all; `output` is what it writes there."""

    def __init__(self, weir):
        self.weir = weir

    def call(self, line, folder):
        return run([self.weir, "-q", *line.split()], folder)

    def ok(self, line, folder):
        ended = self.call(line, folder)
        require(ended.code == 0, f"{line}: ended with {ended.code}: {ended.err.strip()}")
        return ended.out

    def command(self):
        return [self.weir, "-q", *self.line.split()]

    def prepare(self, folder):
        """An earlier result, which the command is to replace."""
        self.ok(self.earlier, folder)

    def whole(self, folder):
        for path in (folder / self.output).rglob("*"):
            if path.is_file() and not path.name.endswith(".tmp"):
                require_whole(path)


class Run(Work):
    """Training with checkpoints; resumed, its losses and weights are those of a run that was never
    stopped, whatever K."""

    name, output, result = "run", "out", "out/run.json"
    line = f"run k2.json --warmup 0 --steps {STEPS} --checkpoint-every 4 -o out"
    earlier = "run seven.json --warmup 0 --steps 2 -o out"

    def prepare(self, folder):
        super().prepare(folder)
        self.reference = json.loads(
            self.ok(f"--json run k1.json --warmup 0 --steps {STEPS}", folder))

    def whole(self, folder):
        out = folder / self.output
        for path in out.glob("*"):
            if path.is_file() and not path.name.endswith(".tmp"):
                require_whole(path)
        for step in (out / "checkpoints").glob("step-*"):
            read_json(step / "checkpoint.json")
            require_whole_tensors(step / "state.safetensors")
        if (out / "run.json").exists() and (out / "measured.json").exists():
            told = len(read_json(out / "run.json")["steps"])
            traced = len(read_json(out / "measured.json")["weir"]["steps"])
            require(told == traced, f"run.json has {told} steps, its trace {traced}: of two runs")

    def goes_on(self, folder, random):
        """From the newest checkpoint to the last step, by another K as likely as not."""
        plan = random.choice(("k1.json", "k2.json"))
        line, first = f"--json run {plan} --warmup 0", 0
        if any((folder / "out" / "checkpoints").glob("step-*")):
            line += " --resume out"
            first = json.loads(self.ok(line + " --steps 0", folder))["first_step"]
        result = json.loads(
            self.ok(f"{line} --steps {STEPS - first} --checkpoint-every 4 -o out", folder))
        want = self.reference
        require(result["parameters_sha256"] == want["parameters_sha256"],
                f"resumed after step {first}: other weights")
        require([step["loss"] for step in result["steps"]] ==
                [step["loss"] for step in want["steps"][first:]],
                f"resumed after step {first}: other losses")
        left = list((folder / "out").rglob("*.tmp"))
        require(not left, f"left after it went on: {left}")


class Processes(Run):
    """The same run, a process a rank."""

    name = "processes"

    def __init__(self, weir, mpirun):
        super().__init__(weir)
        self.mpirun = mpirun

    def command(self):
        return [self.mpirun, "-n", "2", self.weir, "-q", *self.line.split(), "--patience", "6"]


class Measuring(Work):
    """What runs plans and keeps each run as it is measured: resumed, no run is measured again."""

    def measured(self, folder):
        """The step times of the runs that are kept so far, by the file that keeps them."""
        kept = {}
        for path in (folder / self.output / "unfinished").glob("*-round-*.json"):
            steps = read_json(path)["weir"]["steps"]
            kept[path.name] = [step["end_ns"] - step["start_ns"] for step in steps]
        return kept

    def goes_on(self, folder, _random):
        kept = self.measured(folder)
        self.ok(self.line + " --resume", folder)
        require(not (folder / self.output / "unfinished").exists(), "unfinished work was left")
        times = self.times(folder / self.output)
        for name, measured in kept.items():
            require(all(time in times for time in measured), f"{name} was measured again")
        self.whole(folder)


class Tune(Measuring):
    name, output, result = "tune", "tuned", "tuned/tune.json"
    line = "tune tiny.json --global-batch-size 2 --rounds 2 --steps 1 --plans 2 -K 2 -o tuned"
    earlier = line + " --seed 7"

    def times(self, output):
        return {step["end_ns"] - step["start_ns"] for path in output.glob("measured-*.json")
                for step in read_json(path)["weir"]["steps"]}


class Evaluate(Measuring):
    name, output, result = "evaluate", "judged", "judged/evaluation.json"
    line = ("evaluate tiny.json --global-batch-size 4 --fit 2 --interval 9 --held-out 2 --rounds 1 "
            "-K 1,2 -o judged")
    earlier = line + " --seed 7"

    def measured(self, folder):
        return {name: times for name, times in super().measured(folder).items()
                if name.startswith("held-out")}

    def times(self, output):
        found = read_json(output / "evaluation.json")
        return {round(time * 1e9) for trial in found["trials"] + found["pace"]["plans"]
                for time in trial["times_s"]}


class Sweep(Work):
    """A search: asked again, it finds the same."""

    name, output, result = "sweep", "found", "found/sweep.json"
    line = ("sweep tiny.json -K 1..3 -M 1..8 --threads 2 -o found/sweep.json "
            "--report found/page.html --plans found/plans")
    earlier = line.replace("1..8", "1..4")

    def prepare(self, folder):
        self.ok(self.line, folder)
        self.reference = self.answer(folder)
        self.ok(self.earlier, folder)

    def answer(self, folder):
        found = read_json(folder / "found" / "sweep.json")
        return [{"plan": row["plan"], "forecast": row["forecast"]} for row in found["plans"]]

    def goes_on(self, folder, _random):
        self.ok(self.line, folder)
        require(self.answer(folder) == self.reference, "another answer than before")


def lay_out(folder, weir):
    """The models and plans that the works read."""
    (folder / "tiny.json").write_text(json.dumps(MODEL))
    for name, more in (("k1", "-K 1"), ("k2", "-K 2"), ("seven", "-K 2 --seed 7")):
        line = f"plan tiny.json {more} -M 2 -o {name}.json"
        ended = run([weir, "-q", *line.split()], folder)
        require(ended.code == 0, f"{line}: {ended.err}")
