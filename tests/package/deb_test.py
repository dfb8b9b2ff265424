#!/usr/bin/env python3
"""The package that `cpack -G DEB` makes: every library that the command asks for is in a package
that it depends on, and unpacked anywhere the command runs. With ROOT, "bare", also installed by apt
in a Debian 12 that holds nothing else; skips where no such system can be made: without root,
debootstrap or the archive. Usage: deb_test.py SOURCE_DIR BUILD_DIR [bare]"""
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ARCHIVE = "http://deb.debian.org/debian"
PLAN = "gpt2-mini.json -K 2 -M 4 -o"
source, build = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
bare = sys.argv[3:] == ["bare"]


def skip(why):
    print(f"deb: {why}")
    sys.exit(77)


def run(*words, **options):
    done = subprocess.run(list(map(str, words)), text=True, capture_output=True, **options)
    assert done.returncode == 0, f"{words}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


def names(relation):
    """The packages of a field such as Depends, without their versions."""
    return {re.split(r"[ (:]", one.strip())[0] for one in re.split(r"[,|]", relation)}


def packages_of(program):
    """The packages that have the libraries a program itself asks for."""
    libraries = re.findall(r"NEEDED\s+(\S+)", run("objdump", "-p", program))
    places = dict(re.findall(r"(\S+) => (\S+)", run("ldd", program)))
    for library in libraries:
        if library not in places:
            continue  # the loader itself
        place = pathlib.Path(places[library])
        # Packages know /usr/lib, or /lib, which is the same folder.
        for one in (place, place.resolve(), pathlib.Path("/usr") / str(place)[1:]):
            done = subprocess.run(["dpkg", "-S", one], text=True, capture_output=True)
            if done.returncode == 0:
                yield library, done.stdout.split(":")[0]
                break
        else:
            raise AssertionError(f"{library}: {place} is of no package")


def unpacked(package, folder):
    """What is in it, and that it runs where it is laid."""
    run("dpkg", "-x", package, folder)
    members = [path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir()]
    outside = [member for member in members if member.parts[0] != "usr"]
    assert not outside, outside
    for part in ("bin/weir", "share/bash-completion/completions/weir", "share/doc/weir/LICENSE",
                 "share/man/man1/weir-sweep.1", "share/weir/examples/models/gpt2-mini.json",
                 "lib/cmake/weir/weir-config.cmake", "include/weir/sim/forecast/forecast.hpp"):
        found = [member for member in members if str(member).endswith(part)]
        assert found or part.startswith("lib/"), part
    weir = folder / "usr/bin/weir"
    assert run(weir, "--version").startswith("weir ")
    models = folder / "usr/share/weir/examples/models"
    run(weir, "-q", "plan", *PLAN.split(), folder / "plan.json", cwd=models)
    return len(members)


def installed_bare(package, folder):
    root = folder / "root"
    made = subprocess.run(["debootstrap", "--variant=minbase", "bookworm", root, ARCHIVE],
                          text=True, capture_output=True)
    if made.returncode != 0:
        skip("Debian's archive is out of reach")
    shutil.copy(package, root)
    environment = ["/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root",
                   "DEBIAN_FRONTEND=noninteractive"]

    def within(line):
        return run("chroot", root, *environment, "sh", "-c", line)

    # What it depends on comes from the archive, and nothing that is only suggested.
    within(f"apt-get install -y -qq --no-install-recommends /{package.name}")
    assert run("chroot", root, "sh", "-c", "command -v c++ || true") == "", "a compiler came along"
    within(f"cd /usr/share/weir/examples/models && weir -q plan {PLAN} /root/plan.json")
    said = within("cd /root && weir -q run plan.json --steps 3 --json")
    assert '"parameters_sha256"' in said, said
    within("apt-get remove -y -qq weir")
    assert run("chroot", root, "sh", "-c", "command -v weir || true") == "", "it stayed"


if bare and (os.geteuid() != 0 or shutil.which("debootstrap") is None):
    skip("a bare system is made by root and debootstrap")
if shutil.which("dpkg-shlibdeps") is None:
    skip("no dpkg-shlibdeps here (Debian: dpkg-dev)")
with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    run("cpack", "--config", build / "CPackConfig.cmake", "-G", "DEB", "-B", folder / "packed")
    (package,) = (folder / "packed").glob("weir_*.deb")
    fields = dict(re.findall(r"^ ?(\S+): (.*)$", run("dpkg-deb", "-f", package), re.M))
    assert fields["Package"] == "weir" and fields["Architecture"] != "all", fields
    depends = names(fields["Depends"])
    lacking = [pair for pair in packages_of(build / "bin/weir") if pair[1] not in depends]
    assert not lacking, (lacking, fields["Depends"])
    members = unpacked(package, folder / "unpacked")
    if bare:
        installed_bare(package, folder)
    size = package.stat().st_size / 2**20
    print(f"deb: {package.name}, {members} files, {size:.1f} MiB, {len(depends)} packages needed"
          f"{', installed and removed in a bare system' if bare else ''}")
