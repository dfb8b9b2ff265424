#!/usr/bin/env python3
"""Makes FOLDER, with which programs are linked that run on an older glibc than this system's, by
the compiler and with the headers that are here: `c++ @FOLDER/flags`. glibc keeps what a symbol was
in each version for good (`exp` is there as of 2.2.5 and as of 2.29), so this system's own libraries
say what the older ones had. FOLDER gets libc.so and libm.so, which name of each symbol the newest
version that glibc VERSION had, and in libc.so also tools/older_glibc.cpp, the little that was not
there yet. Whatever is newer than this is an undefined reference when linking.
Usage: older_glibc.py VERSION FOLDER"""
# SPDX-License-Identifier: Apache-2.0
import collections
import pathlib
import re
import subprocess
import sys

# Libraries of their own until 2.34. A symbol is found in whichever library is loaded, so a program
# names them all, and no symbol has to be told to be theirs.
LATER_PARTS_OF_LIBC = ("libpthread.so.0", "libdl.so.2", "librt.so.1")
# Nothing of the archives is exported, or other libraries would take their part of libstdc++ here.
FLAGS = """-L{folder}
-Wl,--push-state,--no-as-needed
{parts}
-Wl,--pop-state
-static-libstdc++
-Wl,--exclude-libs,ALL
-Wl,--allow-shlib-undefined
-Wl,--wrap=__libc_start_main
"""


def run(*words):
    return subprocess.run(list(map(str, words)), check=True, text=True, capture_output=True).stdout


def found(library):
    """Where the compiler finds a file."""
    return pathlib.Path(run("c++", f"-print-file-name={library}").strip()).resolve()


def number(version):
    """(2, 2, 5) of GLIBC_2.2.5."""
    return tuple(map(int, re.findall(r"\d+", version)))


def older_symbols(library, limit):
    """{name: (version, is data, address, size)} of what a library defines: of each name the newest
    version up to the limit."""
    symbols = {}
    for line in run("objdump", "-T", library).splitlines():
        one = re.fullmatch(r"(\w+) .{6}(.) (\.\S+)\s+(\w+)\s+\(?(GLIBC_[\d.]+)\)?\s+(\S+)", line)
        if one and number(one[5]) <= limit:
            known = symbols.get(one[6])
            if not known or number(known[0]) < number(one[5]):
                symbols[one[6]] = (one[5], one[2] == "O", int(one[1], 16), int(one[4], 16))
    return symbols


def make_library(folder, name, symbols):
    """A library to link with, which never runs. Names of one address keep one: what is copied into
    a program is copied for all of its names."""
    lines, versions, data = [".text"], collections.defaultdict(list), collections.defaultdict(list)
    for symbol, (version, is_data, address, size) in sorted(symbols.items()):
        versions[version].append(symbol)
        if is_data:
            data[address].append((symbol, size))
        else:
            lines += [f".globl {symbol}", f".type {symbol},@function", f"{symbol}:"]
    lines += ["ret", ".bss"]
    for address in sorted(data):
        lines.append(".balign 64")
        for symbol, size in data[address]:
            lines += [f".globl {symbol}", f".type {symbol},@object", f".size {symbol},{size}",
                      f"{symbol}:"]
        lines.append(f".zero {max(size for _, size in data[address])}")
    source, script = folder / f"{name}.s", folder / f"{name}.map"
    source.write_text("\n".join(lines) + "\n")
    script.write_text("".join(f"{version} {{ global: {'; '.join(names)}; }};\n"
                              for version, names in sorted(versions.items())))
    run("c++", "-shared", "-nostdlib", f"-Wl,-soname,{name}", source, "-o", folder / name,
        *[f"-Wl,--version-script={script}"] * bool(symbols))


limit, folder = number(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
folder.mkdir(parents=True, exist_ok=True)
for library in ("libc.so.6", "libm.so.6"):
    make_library(folder, library, older_symbols(found(library), limit))
for part in LATER_PARTS_OF_LIBC:
    make_library(folder, part, {})
later = folder / "older_glibc.o"
run("c++", "-std=c++20", "-O2", "-fPIC", "-fno-exceptions", "-c",
    pathlib.Path(__file__).with_suffix(".cpp"), "-o", later)
run("ar", "rcs", folder / "libolder_glibc.a", later)
libc = [folder / "libc.so.6", folder / "libolder_glibc.a", found("libc_nonshared.a"),
        found("ld-linux-x86-64.so.2")]
(folder / "libc.so").write_text(f"GROUP ( {' '.join(map(str, libc))} )\n")
(folder / "libm.so").write_text(f"INPUT ( {folder / 'libm.so.6'} )\n")
(folder / "flags").write_text(FLAGS.format(
    folder=folder, parts="\n".join(str(folder / part) for part in LATER_PARTS_OF_LIBC)))
