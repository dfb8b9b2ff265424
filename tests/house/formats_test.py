"""Holds docs/formats.md to what the command writes and takes.

    formats_test.py SOURCE_FOLDER WEIR_COMMAND

Reads the document's tables (a section a schema, or a shared object), lets the command write every
schema once or more, and holds each object to its table: every key of it is documented, every key
that "always" is there is there, and values have the documented types. Keys that no command here
writes (a GPU's, say) must at least be spelt in the sources. Examples in the document are given to
the command, which refuses unknown keys. Every schema of the sources has its section.
"""
# SPDX-License-Identifier: Apache-2.0
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SOURCES, WEIR = Path(sys.argv[1]), sys.argv[2]
FLOORS = ("plan", "traces", "costmodel", "sim", "exec", "tools")
INPUTS = {"weir.cluster/1", "weir.cnn/1", "weir.layers/1", "weir.layout/1"}
failures = []


def fail(text):
    if text not in failures:
        failures.append(text)


class Row:
    def __init__(self, kind, when):
        self.kind, self.when, self.seen = kind, when, False


def read_document(text):
    """{section: {path: Row}}, {section: [example]}, [header of a CSV]"""
    tables, examples, headers, section, fence = {}, {}, [], "", None
    for line in text.splitlines():
        heading = re.match(r"##+ (.*)", line)
        if line.startswith("```"):
            if fence == "json":
                examples.setdefault(section, []).append("\n".join(block))
            elif fence == "csv":
                headers += block
            fence, block = (None if fence else line[3:]), []
        elif fence:
            block.append(line)
        elif heading:
            section = heading[1]
        elif line.startswith("| `"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if len(cells) == 5:  # key, type, unit, when, meaning
                tables.setdefault(section, {})[cells[0].strip("`")] = Row(cells[1], cells[3])
    return tables, examples, headers


PLAIN = {
    "text": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
    "object": lambda v: isinstance(v, dict),
    "any": lambda v: True,
}


class Checker:
    def __init__(self, tables):
        self.tables = tables

    def value(self, value, kind, section, path, table):
        """`value` is of `kind`; objects are held to the rows below `path` of the table."""
        if " or " in kind:
            kinds = kind.split(" or ")
            if value is None and "null" in kinds:
                return
            kinds = [k for k in kinds if k != "null"]
            if len(kinds) > 1:
                if not any(PLAIN[k](value) for k in kinds):
                    fail(f"{section}: {path}: {value!r} is not {kind}")
                return
            kind = kinds[0]
        if kind.startswith("list of "):
            if not isinstance(value, list):
                return fail(f"{section}: {path}: {value!r} is not a list")
            of = kind[len("list of "):]
            of = of if of.startswith("`") else of.rstrip("s")
            for item in value:
                self.value(item, of, section, path + "[]", table)
            return
        if kind.startswith("`"):
            named = kind.strip("`")
            if named not in self.tables:
                return fail(f"{section}: {path}: no section {named}")
            beside = {p for p in table if p.startswith(path + ".")}  # keys added to a shared object
            self.object(
                value, named, "", self.tables[named], {p[len(path) + 1 :]: table[p] for p in beside}
            )
        elif not PLAIN[kind](value):
            fail(f"{section}: {path}: {value!r} is not {kind}")
        elif kind == "object":
            self.object(value, section, path, table)

    def object(self, value, section, path, table, added=None):
        if not isinstance(value, dict):
            return fail(f"{section}: {path}: {value!r} is not an object")
        prefix = path + "." if path else ""
        rows = {p[len(prefix):]: row for p, row in table.items()
                if p.startswith(prefix) and re.fullmatch(r"[^.\[\]]+", p[len(prefix):])}
        rows.update(added or {})
        for key, inner in value.items():
            name = key if key in rows else "*"
            if name not in rows:
                fail(f"{section}: {prefix}{key} is written and not documented")
                continue
            rows[name].seen = True
            self.value(inner, rows[name].kind, section, prefix + name, table)
        for key, row in rows.items():
            if row.when == "always" and key != "*" and key not in value:
                fail(f"{section}: {prefix}{key} is documented as always there and is not")

    def document(self, value):
        schema = value.get("schema") or value["weir"]["schema"]
        if schema not in self.tables:
            return fail(f"{schema} has no section")
        self.object(value, schema, "", self.tables[schema])


def weir(folder, *arguments, code=0):
    done = subprocess.run([WEIR, *map(str, arguments)], cwd=folder, capture_output=True, text=True)
    if done.returncode != code:
        sys.exit(
            f"weir {' '.join(map(str, arguments))}: exit {done.returncode}\n"
            f"{done.stdout}{done.stderr}"
        )
    return done.stdout


TINY = {
    "model_type": "gpt2",
    "architectures": ["GPT2LMHeadModel"],
    "vocab_size": 256,
    "n_positions": 16,
    "n_embd": 16,
    "n_layer": 2,
    "n_head": 2,
}

MEGATRON = """--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16
--max-position-embeddings 16
--vocab-size 256 --make-vocab-size-divisible-by 1 --micro-batch-size 2 --global-batch-size 16
--overlap-moe-expert-parallel-comm --pipeline-model-parallel-size 2 --lr 1e-4
"""


def nccl_tests():
    """sendrecv of two GPUs: 20 us up to 64 KiB, from there 4 us + size / 100 GB/s."""
    lines = ["# Collective test starting: sendrecv_perf",
             "#  Rank  0 Group  0 Pid 1 on a device  0 [0000:1b:00] NVIDIA H100 80GB HBM3",
             "#  Rank  1 Group  0 Pid 2 on a device  1 [0000:1c:00] NVIDIA H100 80GB HBM3",
             "#       size         count      type     time   algbw   busbw  #wrong",
             "#        (B)    (elements)               (us)  (GB/s)  (GB/s)        "]
    for power in range(10, 31):
        size = 2**power
        time = 20 if size <= 65536 else 24 + size / 100e3
        lines.append(f"{size} {size // 4} float {time:.2f} 1.00 1.00 0")
    return "\n".join(lines) + "\n"


def timeline(folder):
    """Two ranks, four micro-batches, 1F1B; the last backward of iteration 3 is held up."""
    folder.mkdir()
    config = {"pp_size": 2, "vp_size": 1, "num_mbs": 4}
    (folder / "config.json").write_text(json.dumps(config))
    for rank, order in enumerate(("F0 F1 B0 F2 B1 F3 B2 B3", "F0 B0 F1 B1 F2 B2 F3 B3")):
        iterations = {}
        for iteration in (1, 2, 3):
            times = {f"{kind}_{end}": [] for kind in ("fwd", "bwd") for end in ("start", "end")}
            for place, action in enumerate(order.split()):
                kind = "fwd" if action[0] == "F" else "bwd"
                times[kind + "_start"].append(10 * (place + rank))
                times[kind + "_end"].append(10 * (place + rank + 1))
            times["bwd_end"][-1] += 100 * (iteration == 3)
            iterations[iteration] = {"total": 200, "memory": 1.5, **times}
        (folder / f"pp_rank_{rank}.json").write_text(json.dumps(iterations))


def outputs(folder):
    """What the commands print and write, every schema at least once."""
    examples = SOURCES / "tools/examples"
    cluster = examples / "clusters/dgx-h100.json"
    (folder / "tiny.json").write_text(json.dumps(TINY))
    (folder / "job.args").write_text(MEGATRON)
    (folder / "nccl.log").write_text(nccl_tests())
    layout = examples / "layouts/two-layer.json"

    def printed(*arguments):
        return json.loads(weir(folder, *arguments, "--json", "-q"))

    yield printed("doctor")
    refused = subprocess.run([WEIR, "model", "none.json", "--json"], cwd=folder,
                             capture_output=True, text=True)
    yield json.loads(refused.stderr)
    yield printed("model", "tiny.json")
    yield printed("model", "tiny.json", "--kernels", "--gpu", "h100", "--dtype", "bf16")
    yield printed("model", "--layout", layout, "--run", "--workers", 2, "--rounds", 1)
    yield printed("model", "tiny.json", "--rules", "batch:d,heads:m,rows:m,ffn:m", "-b", 4,
                  "--mesh", "d=2,m=2", "--cluster", cluster, "--program", "program.json")
    yield printed("model", "--layout", "program.json")
    yield printed("model", "tiny.json", "--devices", 4, "--cluster", cluster, "-b", 4)
    yield printed("layout", "program.json", "--devices", 4, "--cluster", cluster,
                  "--rules", "batch:d,heads:m,rows:m")
    yield printed("layout", examples / "layouts/recurrent.json", "--run", "--workers", 1,
                  "--rounds", 1)
    yield printed("schedule", "--list")
    yield printed("schedule", "1f1b", "-K", 2, "-M", 2, "--svg", "drawn.svg")
    yield printed("schedule", "1f1b", "zb-v", "-K", 2, "-M", 4, "--svg", "several.svg")
    yield printed("schedule", "dualpipe", "--grid", "K=2..3,M=4", "--prove")
    yield printed("schedule", "1f1b", "--grid", "K=2,M=2", "--prove")
    yield printed("reproduce", "gpipe-throughput", "vtrain", "--csv", "reproduced.csv")
    some = folder / "measured"  # of thousands of runs a few
    some.mkdir()
    for table in ("sailor_validation", "torchtitan"):
        text = (examples / f"measured/{table}.csv").read_text()
        (some / f"{table}.csv").write_text(text)
    yield printed("reproduce", "--cross-validate", "--published", some, "--csv", "judged.csv",
                  "--errors", "errors.csv")

    weir(folder, "plan", "tiny.json", "-K", 2, "-M", 4, "-o", "plan.json")
    weir(
        folder,
        "plan",
        "tiny.json",
        "-K",
        2,
        "-M",
        8,
        "-b",
        2,
        "--schedule",
        "gpipe",
        "--recompute",
        "full",
        "-o",
        "gpipe.json",
    )
    weir(
        folder,
        "plan",
        "tiny.json",
        "-K",
        2,
        "-M",
        4,
        "--dp",
        2,
        "--tp",
        2,
        "--sequence-parallel",
        "--zero",
        1,
        "--attention",
        "fused",
        "--optimizer",
        "sgd",
        "-o",
        "split.json",
    )
    weir(
        folder,
        "plan",
        "tiny.json",
        "-K",
        2,
        "-M",
        4,
        "--dp",
        2,
        "--overlap-grad-reduce",
        "-o",
        "replicas.json",
    )
    for plan in ("plan", "gpipe", "split", "replicas"):
        yield json.loads((folder / f"{plan}.json").read_text())
    yield printed("plan", "--from", "megatron", "job.args", "--dp", 2, "-o", "imported.json")
    yield json.loads((folder / "imported.model.json").read_text())
    yield printed("export", "plan.json", "--to", "torch", "-o", "exported")
    yield printed("page", "-o", "page.html")
    weir(folder, "-q", "sweep", "tiny.json", "-K", 1, "-M", 2, "--report", "found.html")
    yield printed("reports", "found.html")
    page = (folder / "found.html").read_text()
    yield json.loads(page.split('id="report">')[1].split("</script>")[0])
    (folder / "other.args").write_text(MEGATRON + " --recompute-activations\n")
    yield printed("export", "imported.json", "--patch", "other.args")
    # A job that fits, with its optimizer's state with the host too; one that a change makes fit,
    # and one that needs more devices.
    away = json.loads((folder / "imported.json").read_text()) | {"offload_optimizer": 1}
    (folder / "away.json").write_text(json.dumps(away))
    yield printed("fits", "away.json", "--cluster", "dgx-h100")
    yield printed("fits", "imported.json", "--cluster", "dgx-h100")
    for least in ("700 KiB", "1 KiB"):
        fits = ("--json", "fits", "imported.json", "--memory-limit", least)
        yield json.loads(weir(folder, *fits, code=4))
    yield printed("export", "imported.json", "--to", "megatron", "--patch", "other.args",
                  "-o", "patched")

    weir(folder, "profile", "tiny.json", "-b", "1,2", "-q", "-o", "profile.json")
    for plan, run in (("plan", "first"), ("gpipe", "second")):
        yield printed("run", f"{plan}.json", "--steps", 5, "--checkpoint-every", 5, "-o", run)
        yield json.loads((folder / run / "measured.json").read_text())
        checkpoint = folder / run / "checkpoints/step-000005/checkpoint.json"
        yield json.loads(checkpoint.read_text())
    # A run that is watched while it trains, and then stopped.
    with subprocess.Popen([WEIR, "-q", "run", "plan.json", "--steps", "100000", "-o", "watched"],
                          cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        while not (folder / "watched/progress.json").exists():
            assert run.poll() is None, "the run has ended"
            time.sleep(0.05)
        progress = (folder / "watched/progress.json").read_text()
        run.send_signal(signal.SIGINT)
    yield json.loads(progress)
    yield printed("run", "plan.json", "--backend", "synthetic")
    yield printed(
        "calibrate",
        "first/measured.json",
        "second/measured.json",
        "--costs",
        "profile.json",
        "-o",
        "costs.json",
    )
    yield printed("calibrate", "--nccl", "nccl.log", "--costs", "costs.json", "-o", "linked.json")
    yield json.loads((folder / "linked.json").read_text())
    yield printed("calibrate", "--nccl", "nccl.log", "--cluster", cluster, "-o", "machine.json")
    yield json.loads((folder / "machine.json").read_text())

    yield printed(
        "simulate",
        "plan.json",
        "--costs",
        "costs.json",
        "--samples",
        20,
        "--no-barrier",
        "--mtbf",
        "3h",
        "--checkpoint-cost",
        "30s",
        "--restart-cost",
        "5min",
        "--memory-limit",
        "1 GiB",
        "-o",
        "forecast",
    )
    yield json.loads((folder / "forecast/predicted.json").read_text())
    yield printed("simulate", "split.json", "--cluster", cluster)
    priced = {**json.loads(cluster.read_text()), "price_per_gpu_hour": "2.50 USD"}
    (folder / "priced.json").write_text(json.dumps(priced))
    yield printed("simulate", "split.json", "--cluster", "priced.json", "--train-tokens", "1e12")
    yield printed("explain", "split.json", "--cluster", "priced.json", "--train-tokens", "1e12",
                  "--measured", "5ktok/s")
    yield printed("explain", "gpipe.json", "--costs", "costs.json", "--measured", "1s")
    yield printed(
        "calibrate",
        "--measured",
        "split.json=900ms,20.5GiB",
        "--measured",
        "replicas.json=3ktok/s",
        "--cluster",
        cluster,
        "-o",
        "anchored.json",
    )
    yield printed("simulate", "split.json", "--cluster", cluster, "--costs", "anchored.json")
    yield printed("compare", "forecast/predicted.json", "first/measured.json", "--svg", "both.svg")
    yield printed("compare", "plan.json", "split.json")
    weir(folder, "plan", "tiny.json", "-K", 2, "-M", 4, "--schedule", "gpipe", "-o", "drained.json")
    yield printed("compare", "plan.json", "drained.json", "--cluster", cluster)  # of one job
    line = "iteration {} | elapsed time per iteration (ms): {} | lm loss: 1.0\n"
    (folder / "job.log").write_text("".join(line.format(i, 100 + i) for i in range(1, 6)))
    yield printed("compare", "plan.json", "job.log")
    timeline(folder / "timeline")
    yield printed("compare", "plan.json", "timeline")
    yield printed("compare", "timeline", "timeline", "--priced-by", 2)
    yield printed(
        "sweep",
        "tiny.json",
        "-K",
        "1,2",
        "--baseline",
        "plan.json",
        "--backend",
        "synthetic",
        "--run",
        "--explain",
    )
    # A search of a large space, stopped when it has found something and before it ends, however
    # fast the machine.
    for seconds in (0.5, 1, 2, 4, 8, 16, 32):
        with subprocess.Popen(
                [WEIR, "-q", "sweep", str(examples / "models/llama-3-70b.json"), "--gpus", "2048",
                 "--global-batch-size", "4096", "--cluster", str(cluster), "--budget", "60s", "-o",
                 "large.json"],
                cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as search:
            time.sleep(seconds)
            search.send_signal(signal.SIGINT)
        state = folder / "large.json.search"
        if state.exists() and json.loads(state.read_text())["search"]["best"]:
            break
    yield json.loads(state.read_text())
    yield printed("sweep", "tiny.json", "-K", "1,5", "-M", 2)
    yield printed(
        "sweep", "tiny.json", "--gpus", 8, "--global-batch-size", 8, "--cluster", cluster
    )
    yield printed(
        "tune",
        "tiny.json",
        "--plans",
        2,
        "--rounds",
        1,
        "--steps",
        1,
        "--global-batch-size",
        2,
        "-o",
        "tuned",
    )
    yield json.loads((folder / "tuned/profile.json").read_text())
    # What ends before there is a result leaves what it has: no plan fits, there are not so many.
    tune = "tune tiny.json -K 1 --global-batch-size 1 --memory-limit 1KiB -q -o none".split()
    weir(folder, *tune, code=4)
    yield json.loads((folder / "none/unfinished/asked.json").read_text())
    many = "evaluate tiny.json -K 1 --global-batch-size 1 --held-out 60000 -q -o many".split()
    weir(folder, *many, code=2)
    yield json.loads((folder / "many/unfinished/asked.json").read_text())
    yield json.loads((folder / "tuned/costs.json").read_text())
    yield printed(
        "evaluate",
        "tiny.json",
        "-K",
        "1,2",
        "--global-batch-size",
        4,
        "--fit",
        1,
        "--interval",
        9,
        "--held-out",
        2,
        "--rounds",
        1,
        "-o",
        "judged",
    )
    yield json.loads((folder / "judged/predictions.json").read_text())
    yield json.loads((folder / "judged/costs.json").read_text())


def check_examples(folder, checker, examples):
    """Each is documented, and taken by the command, which refuses unknown keys."""
    for schema, texts in examples.items():
        for number, text in enumerate(texts):
            checker.document(json.loads(text))
            file = folder / f"example-{number}.json"
            file.write_text(text)
            if schema == "weir.layout/1":
                weir(folder, "model", "--layout", file)
            elif schema == "weir.cluster/1":
                weir(folder, "plan", "tiny.json", "-K", 2, "-M", 2, "--cluster", file)
            else:
                weir(folder, "model", file)
    for schema in sorted(INPUTS - set(examples)):
        fail(f"{schema} has no example")


def check_inputs_shipped(checker):
    for file in sorted((SOURCES / "tools/examples").rglob("*.json")):
        content = json.loads(file.read_text())
        if "schema" in content:
            checker.document(content)


def spelt_in_sources():
    words = set()
    for floor in FLOORS:
        for file in (SOURCES / floor).rglob("*.?pp"):
            words |= set(re.findall(r'\\?"([A-Za-z0-9_/.]+)\\?"', file.read_text()))
    return words


def check_csv_headers(folder, headers):
    for file in ("reproduced.csv", "judged.csv", *sorted(str(p) for p in folder.glob("drawn*.csv")),
                 *sorted(str(p) for p in folder.glob("judged/evaluation*.csv"))):
        first = (folder / file).read_text().splitlines()[0]
        if first not in headers:
            fail(f"{Path(file).name}: the header {first} is not documented")
    for header in headers:  # those that are read: the document's first line is taken as it stands
        rows = {"name,kind": "a,block,10,1,1,1,64,64,2", "stage,f_ms": None}
        for start, row in rows.items():
            if not header.startswith(start):
                continue
            file = folder / "read.csv"
            if row:
                file.write_text(f"{header}\n{row}\n")
                weir(folder, "model", file)
            else:
                file.write_text(f"{header}\n0,1,1,1,2,1,0,0\n1,1,1,1,2,1,0.1,0.1\n")
                weir(folder, "schedule", "1f1b", "-K", 2, "-M", 2, "--times", file)


def main():
    document = (SOURCES / "docs/formats.md").read_text()
    tables, examples, headers = read_document(document)
    checker = Checker(tables)
    words = spelt_in_sources()
    schemas = {word for word in words if re.fullmatch(r"weir\.[a-z_]+/\d+", word)}
    for schema in sorted(schemas - set(tables)):
        fail(f"{schema} is in the sources and has no section")
    for schema in sorted({name for name in tables if name.startswith("weir.")} - schemas):
        fail(f"{schema} has a section and is not in the sources")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for output in outputs(folder):
            checker.document(output)
        check_examples(folder, checker, examples)
        check_csv_headers(folder, headers)
    check_inputs_shipped(checker)
    unseen = 0
    for section, table in tables.items():
        for path, row in table.items():
            if row.seen or row.kind == "any":
                continue
            unseen += 1
            key = re.split(r"[.\[\]]+", path)[-1]
            if row.when == "always" and not any(
                p.when != "always"
                for q, p in table.items()
                if path.startswith(q + ".") or path.startswith(q + "[]")
            ):
                fail(f"{section}: {path} is documented as always there and was never written")
            elif key not in words:
                fail(f"{section}: {path} is documented, was never written, and no source spells it")
    rows = sum(len(table) for table in tables.values())
    print(f"{len(schemas)} schemas, {rows} keys, {rows - unseen} of them seen")
    if failures:
        sys.exit("\n".join(failures))


main()
