#!/usr/bin/env python3
"""What cpack packs runs where it is unpacked: the command with its examples, and the library for a
project that looks for it there. Usage: tarball_test.py SOURCE_DIR BUILD_DIR"""
# SPDX-License-Identifier: Apache-2.0
import pathlib
import subprocess
import sys
import tarfile
import tempfile

source, build = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])


def run(*words, **options):
    done = subprocess.run(list(map(str, words)), text=True, capture_output=True, **options)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    run("cpack", "--config", build / "CPackConfig.cmake", "-B", folder / "packed")
    archives = list((folder / "packed").glob("weir-*.tar.gz"))
    assert len(archives) == 1, archives
    with tarfile.open(archives[0]) as archive:
        members = archive.getnames()
        outside = [member for member in members if member.startswith("/") or ".." in member]
        assert not outside, outside
        archive.extractall(folder / "unpacked")
    (root,) = (folder / "unpacked").iterdir()
    assert root.name == archives[0].name.removesuffix(".tar.gz"), root

    for part in ("bin/weir", "share/bash-completion/completions/weir", "share/doc/weir/LICENSE",
                 "share/man/man1/weir.1", "share/man/man1/weir-sweep.1",
                 "share/zsh/site-functions/_weir", "share/fish/vendor_completions.d/weir.fish"):
        assert (root / part).is_file(), part
    weir, examples = root / "bin/weir", root / "share/weir/examples"
    assert run(weir, "--version").startswith("weir ")
    plan = folder / "plan.json"
    run(weir, "-q", "plan", examples / "models/gpt2-mini.json", "-K", 2, "-M", 4, "-o", plan)
    assert '"step_time_s"' in run(weir, "--json", "simulate", plan, "--cluster",
                                  examples / "clusters/dgx-h100.json")
    run("cmake", "-S", source / "tests/package/consumer", "-B", folder / "consumer", "-G", "Ninja",
        f"-DCMAKE_PREFIX_PATH={root}", "-DCMAKE_BUILD_TYPE=None")
    size = archives[0].stat().st_size / 2**20
print(f"tarball: {archives[0].name}, {len(members)} members, {size:.1f} MiB, runs where unpacked")
