// Without a fuzzer, and with any compiler: every seed, every regression and every example once
// through its target, whole and cut short at sixteen places.
// Usage: fuzz_replay [TARGET FILE...]
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "plan/text/bytes_file.hpp"
#include "tests/fuzz/targets.hpp"

namespace weir::fuzz {
namespace {

struct Counts {
  int inputs = 0, accepted = 0, faults = 0;
};

void files_of(const std::filesystem::path& folder, std::vector<std::filesystem::path>& files) {
  if (!std::filesystem::exists(folder)) return;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.is_regular_file()) files.push_back(entry.path());
}

std::vector<std::filesystem::path> inputs_of(const Target& target) {
  const std::filesystem::path source = WEIR_SOURCE_DIR;
  std::vector<std::filesystem::path> files;
  files_of(source / "tests/fuzz/seeds" / target.name, files);
  files_of(source / "tests/fuzz/regressions" / target.name, files);
  if (!target.examples.empty()) files_of(source / "tools/examples" / target.examples, files);
  std::ranges::sort(files);  // the order of a folder is any
  return files;
}

void replay(const Target& target, const std::filesystem::path& file, Counts& counts) {
  constexpr std::size_t kCuts = 16;
  const std::string whole = read_bytes(file);
  for (std::size_t cut = 1; cut <= kCuts; ++cut) {
    const std::size_t length = whole.size() * cut / kCuts;
    ++counts.inputs;
    try {
      counts.accepted += run(target, whole.substr(0, length)) == Outcome::accepted ? 1 : 0;
    } catch (const std::exception& fault) {
      ++counts.faults;
      fmt::print("{} {}, {} bytes: {}\n", target.name, file.string(), length, fault.what());
    }
  }
}

int replay_all() {
  Counts all;
  int faults = 0;
  for (const Target& target : targets()) {
    Counts counts;
    for (const auto& file : inputs_of(target)) replay(target, file, counts);
    // A target of which no seed is accepted would look at error messages alone.
    if (counts.accepted == 0) {
      ++counts.faults;
      fmt::print("{}: none of {} inputs was accepted\n", target.name, counts.inputs);
    }
    all.inputs += counts.inputs;
    all.accepted += counts.accepted;
    faults += counts.faults;
  }
  fmt::print("fuzz: {} inputs to {} targets, {} accepted, {} faults\n", all.inputs,
             targets().size(), all.accepted, faults);
  return faults == 0 ? 0 : 1;
}

}  // namespace
}  // namespace weir::fuzz

int main(int argc, char** argv) {
  if (argc < 3) return weir::fuzz::replay_all();
  const weir::fuzz::Target* target = weir::fuzz::find_target(argv[1]);
  if (target == nullptr) {
    fmt::print(stderr, "no target {}\n", argv[1]);
    return 2;
  }
  weir::fuzz::Counts counts;
  for (int i = 2; i < argc; ++i) weir::fuzz::replay(*target, argv[i], counts);
  return counts.faults == 0 ? 0 : 1;
}
