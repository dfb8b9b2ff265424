#!/usr/bin/env python3
"""What is built installs: the command says its version and its commit, each shell reads the
completions, the manual pages are the command's, and a project of its own finds, links and runs the
library.
Usage: install_test.py SOURCE_DIR BUILD_DIR"""
# SPDX-License-Identifier: Apache-2.0
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

source, build = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])


def run(*words, **options):
    done = subprocess.run(list(map(str, words)), text=True, capture_output=True, **options)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def completes(prefix, weir):
    """Each shell that is here accepts its script; bash completes by it."""
    scripts = {
        "bash": prefix / "share/bash-completion/completions/weir",
        "zsh": prefix / "share/zsh/site-functions/_weir",
        "fish": prefix / "share/fish/vendor_completions.d/weir.fish",
    }
    for shell, script in scripts.items():
        assert script.read_text() == run(weir, "--completion", shell), script
        if shutil.which(shell):
            run(shell, "-n", script)
    ask = f"""source '{scripts["bash"]}'
    ask() {{ COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _weir; echo "${{COMPREPLY[*]}}"; }}
    ask weir sim; ask weir --json run --back; ask weir export --to m; ask weir plan -; ask weir x
    for command in calibrate compare explain fits model page plan simulate sweep; do
      ask weir $command --cluster dgx-h1; done
    ask weir sweep --cluster ./dgx; ask weir sweep --cluster g
    """
    commands, option, value, options, none, *clusters = run("bash", "-c", ask).splitlines()
    # Names where one begins so; nothing where none does, and then bash goes on with files.
    assert clusters[:-2] == ["dgx-h100"] * 9, clusters
    assert clusters[-2] == "" and {"gb200-nvl72", "gh200"} <= set(clusters[-1].split()), clusters
    assert commands == "simulate", commands
    assert option == "--backend", option
    assert value == "megatron", value
    assert {"-K", "--pp", "--json"} <= set(options.split()), options
    assert none == "", none


with tempfile.TemporaryDirectory() as folder:
    prefix, consumer = pathlib.Path(folder, "prefix"), pathlib.Path(folder, "consumer")
    run("cmake", "--install", build, "--prefix", prefix)
    weir = prefix / "bin/weir"

    version = run(weir, "--version").strip()
    assert re.fullmatch(r"weir [0-9.]+ \((commit [0-9a-f]{12}, )?(GCC|Clang) .*with .*\)",
                        version), version
    if (source / ".git").exists() and shutil.which("git"):
        commit = run("git", "rev-parse", "--short=12", "HEAD", cwd=source).strip()
        built = (build / "built_commit.cpp").read_text()
        assert commit in version or commit not in built, f"{version}: of {commit}"
    completes(prefix, weir)
    manual = prefix / "share/man/man1"
    run(weir, "--man-pages", pathlib.Path(folder, "man1"))
    for page in pathlib.Path(folder, "man1").iterdir():
        assert (manual / page.name).read_text() == page.read_text(), page.name
    models = prefix / "share/weir/examples/models"
    assert "gpt2" in run(weir, "model", models / "gpt2-mini.json", "--json")

    run("cmake", "-S", source / "tests/package/consumer", "-B", consumer, "-G", "Ninja",
        f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=None")
    run("cmake", "--build", consumer)
    # 1F1B by its closed form: (M + K - 1) (F + B) = 5 * 6 ms.
    assert run(consumer / "consumer").strip() == "0.030000"
print("install: command, completions, manual and library are whole")
