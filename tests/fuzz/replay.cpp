// Without a fuzzer, and with any compiler: every seed, every regression and every example once
// through its target, whole and cut short at sixteen places. Or programs grown by the grammars of
// the interpreters, so many each: each ends in a job or in one line, within 2 s of processor time,
// and all of them within 500 MB.
// Usage: fuzz_replay [TARGET FILE... | --programs COUNT [SEED]]
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>
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
      counts.accepted += run(target.run, whole.substr(0, length)) == Outcome::accepted ? 1 : 0;
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

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

Counts grow_programs(const Target& target, std::uint64_t count, std::uint64_t seed) {
  constexpr double kMostSeconds = 2;
  constexpr std::uint64_t kWhole = 16;  // one in so many goes on as a command would
  Counts counts;
  double slowest = 0;
  std::uint64_t slowest_seed = seed;
  for (std::uint64_t of = seed; of < seed + count; ++of) {
    const std::string program = target.grammar.program(of);
    const double before = processor_seconds();
    std::string fault;
    ++counts.inputs;
    try {
      counts.accepted +=
          run(of % kWhole == 0 ? target.run : target.grammar.read, program) == Outcome::accepted
              ? 1
              : 0;
    } catch (const std::exception& thrown) {
      fault = thrown.what();
    }
    const double took = processor_seconds() - before;
    if (took > slowest) slowest = took, slowest_seed = of;
    if (took > kMostSeconds) fault = fmt::format("took {:.1f} s", took);
    if (fault.empty()) continue;
    ++counts.faults;
    fmt::print("{}, seed {}: {}\n{}\n", target.name, of, fault, program);
  }
  fmt::print("{}: {} programs, {} accepted, {} faults, slowest {:.3f} s (seed {})\n", target.name,
             counts.inputs, counts.accepted, counts.faults, slowest, slowest_seed);
  return counts;
}

// Programs of every grammar there is.
int grow_all(std::uint64_t count, std::uint64_t seed) {
  constexpr std::int64_t kMostKilobytes = 500'000;
  int faults = 0;
  for (const Target& target : targets()) {
    if (target.grammar.program == nullptr) continue;
    const Counts counts = grow_programs(target, count, seed);
    faults += counts.faults;
    // Where next to none is accepted, what stands behind the interpreter is not come to.
    if (counts.accepted * 20 < counts.inputs) {
      ++faults;
      fmt::print("{}: fewer than one in twenty was accepted\n", target.name);
    }
  }
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  fmt::print("at most {} MB\n", used.ru_maxrss / 1000);
  if (used.ru_maxrss > kMostKilobytes) ++faults;
  return faults == 0 ? 0 : 1;
}

}  // namespace
}  // namespace weir::fuzz

int main(int argc, char** argv) {
  if (argc < 3) return weir::fuzz::replay_all();
  if (std::string_view(argv[1]) == "--programs")
    return weir::fuzz::grow_all(std::stoull(argv[2]), argc > 3 ? std::stoull(argv[3]) : 1);
  const weir::fuzz::Target* target = weir::fuzz::find_target(argv[1]);
  if (target == nullptr) {
    fmt::print(stderr, "no target {}\n", argv[1]);
    return 2;
  }
  weir::fuzz::Counts counts;
  for (int i = 2; i < argc; ++i) weir::fuzz::replay(*target, argv[i], counts);
  return counts.faults == 0 ? 0 : 1;
}
