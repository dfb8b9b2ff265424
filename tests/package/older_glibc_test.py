#!/usr/bin/env python3
"""A program that is linked by tools/older_glibc.py asks for nothing that glibc 2.28 does not have,
does what it does otherwise, and does not link where it uses what came later.
Usage: older_glibc_test.py SOURCE_DIR"""
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile

# Each line uses something that is newer than 2.28, in the headers or in the library of C++ itself.
PROGRAM = """
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <filesystem>
#include <iostream>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>

const std::shared_ptr<int> initialised = std::make_shared<int>(7);

using std::chrono::steady_clock;
const auto longer_than_a_part = std::chrono::milliseconds(1200);

bool waits() {
  std::mutex mutex;
  std::condition_variable condition;
  std::unique_lock lock(mutex);
  const auto begun = steady_clock::now();
  const bool came = condition.wait_for(lock, longer_than_a_part, [] { return false; });
  const bool is_late = steady_clock::now() - begun >= longer_than_a_part;
  bool ready = false;
  std::thread other([&] {
    std::lock_guard also(mutex);
    ready = true;
    condition.notify_one();
  });
  const bool notified = condition.wait_for(lock, std::chrono::minutes(1), [&] { return ready; });
  other.join();
  return !came && is_late && notified && steady_clock::now() - begun < std::chrono::minutes(1);
}

bool locks() {
  std::timed_mutex mutex;
  std::lock_guard lock(mutex);
  bool locked = true, is_late = false;
  std::thread([&] {
    const auto begun = steady_clock::now();
    locked = mutex.try_lock_for(longer_than_a_part);
    is_late = steady_clock::now() - begun >= longer_than_a_part;
  }).join();
  return !locked && is_late;
}

int main(int count, char** arguments) {
  std::random_device device;
  std::set<unsigned> drawn;
  for (int i = 0; i < 8; ++i) drawn.insert(device());
  const std::filesystem::path self = arguments[0];
  std::cout << *initialised << ' ' << waits() << ' ' << locks() << ' ' << (drawn.size() > 6) << ' '
            << (std::filesystem::file_size(self) > 1000) << ' '
            << std::filesystem::is_symlink(self) << ' ' << std::exp(std::log(3.0) * count) << ' '
            << std::hypot(3.0, 4.0 * count) << '\\n';
  try {
    std::cout << std::filesystem::file_size(self / "nothing");
  } catch (const std::filesystem::filesystem_error& error) {
    std::cout << error.code().value() << '\\n';
  }
}
"""
NEWER = """
#include <unistd.h>
int main() { return close_range(5, 6, 0); }
"""
NOT_A_FOLDER = 20  # ENOTDIR

if platform.machine() != "x86_64" or os.confstr("CS_GNU_LIBC_VERSION") != "glibc 2.36":
    print("older_glibc: for the glibc of Debian 12 on x86-64")
    sys.exit(77)
source = pathlib.Path(sys.argv[1])
with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    subprocess.run([source / "tools/older_glibc.py", "2.28", folder / "glibc"], check=True)

    def link(text, program):
        (folder / "program.cpp").write_text(text)
        return subprocess.run(["c++", "-std=c++20", f"@{folder}/glibc/flags",
                               folder / "program.cpp", "-o", program], capture_output=True,
                              text=True)

    program = folder / "program"
    done = link(PROGRAM, program)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([program], capture_output=True, text=True)
    # exp(log 3) = 3 and hypot(3, 4) = 5, with one argument, the name.
    assert done.stdout == f"7 1 1 1 1 0 3 5\n{NOT_A_FOLDER}\n", (done.stdout, done.stderr)
    needs = subprocess.run(["objdump", "-p", program], capture_output=True, text=True).stdout
    newest = max(tuple(map(int, version.split(".")))
                 for version in re.findall(r"GLIBC_([\d.]+)", needs))
    assert (2, 2, 5) <= newest <= (2, 28), newest
    assert "libpthread.so.0" in needs and "libstdc++" not in needs, needs
    done = link(NEWER, folder / "newer")
    assert done.returncode != 0 and "close_range" in done.stderr, done
print(f"older_glibc: asks for {'.'.join(map(str, newest))}")
