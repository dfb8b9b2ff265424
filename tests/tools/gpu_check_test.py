#!/usr/bin/env python3
"""tools/gpu-check where there is no GPU: a real kit is refused in one line; and with a kit of
stand-ins, which print what the real programs print, the whole flow runs and its table has every
row, also when a stage fails or hangs. Usage: gpu_check_test.py SOURCE_DIR WEIR."""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

source, weir = pathlib.Path(sys.argv[1]), sys.argv[2]
script = source / "tools/gpu-check"

WEIR = r"""#!/bin/bash
[[ $1 != -q ]] || shift
command=$1
while (($#)); do
  case $1 in
    --help) [[ $command == run ]] && echo '  --graphs --launched --kernels'; exit 0 ;;
    --kernels) kernels=1 ;;
    bf16)
      echo "weir: the cuda backend computes in fp32 or tf32, the plan asks for bf16" >&2
      exit 2 ;;
    -o) out=$2; shift ;;
  esac
  shift
done
case $command in
  doctor) echo 'weir 0.2.0 on stand-ins'; echo '  yes cuda backend       a stand-in' ;;
  plan) echo '{}' > "$out" ;;
  run) mkdir -p "$out"
    echo '{"step_time_s": 0.5, "host_s_per_action": 1.5e-06, "sharing": "one GPU",' \
      '"parameters_sha256": "ab"}' > "$out/run.json"
    [[ ! $kernels ]] || cat "${0%/*}/kernels.txt" ;;
  evaluate) mkdir -p "$out"
    printf '%s\n' '{"median_abs_error": 0.03, "p95_abs_error": 0.06,' \
      ' "by_profile": {"median_abs_error": 0.5, "p95_abs_error": 0.6},' \
      ' "pace": {"median_abs_error": 0.7, "p95_abs_error": 0.8}}' > "$out/evaluation.json"
    echo 'idle, predicted / measured: fill 1.0 / 1.1 %' ;;
  tune) echo 'median error 4.0 % as first predicted' ;;
esac
"""
KERNELS = """median step 500.00 ms
6 kernels, copies and fills in 2 steps, 700.00 ms in all
  kernel                                                      calls      total    share
  nvjet_hsh_128x256_64x4                                       1234  350.00 ms   50.0 %
  column_partials_kernel<float, 4>                              100  175.00 ms   25.0 %
  a|b                                                            10   70.00 ms   10.0 %
  c                                                              10   35.00 ms    5.0 %
  d                                                              10   35.00 ms    5.0 %
  e                                                              10   35.00 ms    5.0 %
  action      actions  kernels       time  nothing running
  F                 8     1000  200.00 ms            7.5 %
  OPTIMIZER         2       80    9.00 ms           40.0 %
clocks joined to within 1.0 us; kernels reach beyond their action by up to 0.0 us
"""
TESTS = r"""#!/bin/bash
case $* in
  *--gtest_list_tests*) printf 'CudaA.\n  One\n  Two\nTyped/0.  # TypeParam = float\n  One\n' ;;
  *) echo '[  PASSED  ] 7 tests.' ;;
esac
"""
BENCH = """#!/bin/bash
echo "together {} of a large product's 700 TFLOP/s in bf16; least 0.50, head"
"""
PEER = r"""import json, sys
for line in sys.stdin:
    print(json.dumps({"tokens_per_s": 131072.0}), flush=True)
"""
ROWS = [
    "tests on the device",
    "matrix products of GPT-2",
    "bf16",
    "fused attention",
    "GPT-2 124M, K = 1, tokens a second (--dtype tf32)",
    "the same with graphs",
    "the same by PyTorch, compiled",
    "ours over PyTorch's",
    "host time per action, s",
    "kernels of GPT-2, K = 1",
    *(f"GPT-2 124M, K = {k}, M = 8, tokens a second" for k in (1, 2, 4, 8)),
    *(f"Llama 125M, K = {k}" for k in (1, 2)),
    "Llama 1.5B, 2 x 4096 tokens, K = 1, tokens a second",
    *(f"{of}, K = {k}" for of in ("bert-base-masked", "vit-b-16") for k in (1, 2)),
    *(f"{of}, K = {k}" for of in ("resnet-50", "unet-2-64", "amoebanet-cifar") for k in (1, 2)),
    "clipped gradients, GPT-2 mini",
    "re-materialised cores, two blocks at a time, GPT-2 124M",
    "replicas, ZeRO-1 to 3, one norm, rebuilt cores",
    *(f"forecasts, K = {k}" for k in (2, 4, 8)),
    "forecasts, Llama 125M, K = 2",
    "weir tune gpt2-mini, K = 2",
    "compute-sanitizer memcheck",
    "compute-sanitizer racecheck",
]


def program(path, text):
    path.write_text(text)
    path.chmod(0o755)


def check(kit, out, *options):
    environment = {**os.environ, "PATH": f"{kit}:{os.environ['PATH']}", "CUDA_HOME": str(kit)}
    done = subprocess.run(
        [script, *options, kit, out], capture_output=True, text=True, env=environment, timeout=120
    )
    rows = {}
    if (out / "results.json").exists():
        rows = {
            c["check"]: c["result"]
            for c in json.loads((out / "results.json").read_text())["checks"]
        }
    return done, rows


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    kit = folder / "kit"
    (kit / "lib").mkdir(parents=True)

    # The command itself, on a machine without a GPU: one line, and nothing is run.
    shutil.copy(weir, kit / "weir")
    for stand_in in ("exec_cuda_tests", "cuda_matmul_bench", "compute-sanitizer"):
        program(kit / stand_in, TESTS)
    has_gpu = (
        "yes cuda backend"
        in subprocess.run([weir, "doctor"], capture_output=True, text=True).stdout
    )
    if not has_gpu:
        done, rows = check(kit, folder / "none")
        assert done.returncode == 5 and rows == {}, (done, rows)
        assert len(done.stderr.splitlines()) == 1 and "cuda backend" in done.stderr, done.stderr

    # All goes well: 4 micro-batches of 8 sequences of 1024 are 32,768 tokens, in 0.5 s 65,536 a
    # second; the stand-in for PyTorch says 131,072, twice that.
    program(kit / "weir", WEIR)
    program(kit / "cuda_matmul_bench", BENCH.format("0.80"))
    (kit / "kernels.txt").write_text(KERNELS)
    for peer in ("gpt2", "llama"):
        (kit / f"{peer}_pytorch.py").write_text(PEER)
    done, rows = check(kit, folder / "good")
    assert done.returncode == 0, done
    for row in ROWS:
        assert any(found.startswith(row) for found in rows), (row, rows)
        assert row in (folder / "good/summary.md").read_text() and row in done.stdout, row
    # Two suites, a process each.
    assert rows["tests on the device"] == "ok; 14 passed, 0 skipped", rows
    assert (folder / "good/tests.Typed.0.txt").exists() and (folder / "good.tar.gz").exists()
    # Nine actions of 1.5 us each are one launch.
    assert rows["launch of a graph, us (asked: below 30)"] == "13.5", rows
    assert rows["matrix products of GPT-2"].startswith("together 0.80 of"), rows
    assert rows["bf16"].startswith(
        "not in this build: weir: the cuda backend computes in fp32 or tf32"
    ), rows
    assert rows["fused attention"] == "not in this build", rows
    assert rows["GPT-2 124M, K = 1, tokens a second (--dtype tf32)"] == "6.554e+04", rows
    assert rows["the same by PyTorch, compiled"] == "131072.0", rows
    assert rows["ours over PyTorch's"] == "0.5, with graphs 0.5", rows
    assert rows["host time per action, s"] == "1.5e-06, with graphs 1.5e-06", rows
    assert rows["kernels of GPT-2, K = 1"] == (
        "nvjet_hsh_128x256_64x4 50.0 %, column_partials_kernel<float, 4> 25.0 %, "
        "a/b 10.0 %, c 5.0 %, d 5.0 %; "
        "nothing running in F 7.5 %, OPTIMIZER 40.0 %"
    ), rows
    assert rows["idle time, K = 8"] == " fill 1.0 / 1.1 %", rows
    # The evaluation's own figures, not those of its parts.
    assert (
        rows["forecasts, K = 8, 20 plans held out"] == "median error 0.03, 95th percentile 0.06"
    ), rows

    # 2 x 4096 tokens in 0.5 s.
    assert rows["Llama 1.5B, 2 x 4096 tokens, K = 1, tokens a second"] == (
        "1.638e+04; step 0.5 s"
    ), rows

    assert rows["the same by PyTorch, compiled, 1.5B"] == "131072.0", rows

    # 4 micro-batches of 8 samples of 512 tokens, and of 197 positions, in 0.5 s.
    assert rows["bert-base-masked, K = 2, positions a second (--dtype tf32)"] == "3.277e+04", rows
    assert rows["vit-b-16, K = 1, positions a second (--dtype tf32)"] == "1.261e+04", rows

    # Only what is asked for, and what that needs: two of the parts.
    done, rows = check(kit, folder / "part", "--only", "tune,forecasts-K4")
    assert done.returncode == 0, done
    assert list(rows) == [
        "bf16",
        "fused attention",
        "forecasts, K = 4, 20 plans held out",
        "idle time, K = 4",
        "weir tune gpt2-mini, K = 2",
    ], rows
    done, _ = check(kit, folder / "wrong", "--parts", "tune")
    assert done.returncode == 2 and "--only" in done.stderr, done

    # The tests hang, PyTorch is missing, CUPTI too, and the tuning fails: the other rows are there
    # all the same.
    program(
        kit / "exec_cuda_tests",
        "#!/bin/bash\n[[ $* != *list_tests* ]] || { echo CudaA.; exit; }\nsleep 100\n",
    )
    program(
        kit / "weir",
        WEIR.replace(
            "tune) echo 'median", "tune) echo 'weir: no plan' >&2; exit 4; echo 'median"
        ).replace(
            "--kernels) kernels=1",
            "--kernels) echo 'weir: recording kernels needs CUPTI: no libcupti.so' >&2; exit 5",
        ),
    )
    (kit / "gpt2_pytorch.py").write_text("import sys\nsys.exit('needs PyTorch')\n")
    program(kit / "cuda_matmul_bench", BENCH.format("0.70"))
    done, rows = check(kit, folder / "bad", "--seconds", "60")
    assert done.returncode == 1, done
    for row in ROWS:
        assert any(found.startswith(row) for found in rows), (row, rows)
    assert rows["matrix products of GPT-2"].startswith("failed: asked 0.75, together 0.70"), rows
    assert rows["tests on the device"].startswith("FAILED: CudaA: stopped after "), rows
    assert rows["the same by PyTorch, compiled"] == "skipped: needs PyTorch", rows
    assert (
        rows["kernels of GPT-2, K = 1"]
        == "skipped: failed (5): weir: recording kernels needs CUPTI: no libcupti.so"
    ), rows
    assert rows["weir tune gpt2-mini, K = 2"] == "failed (4): weir: no plan", rows
    assert rows["compute-sanitizer memcheck on the kernel tests"] == "clean", rows
print("gpu-check: every row is there")
