// What is fuzzed: every reader of text and files, each a row of one table. A target takes any
// bytes; what it accepts is carried on as a command would (round_trips.hpp).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace weir::fuzz {

// Programs of an interpreter's grammar (programs.hpp) by seed, and their reader without what a
// command does with the job then, which takes most of the time.
struct Grammar {
  std::string (*program)(std::uint64_t seed);
  void (*read)(const std::string& bytes);
};

struct Target {
  std::string_view name;      // of its folders of seeds and of regressions
  std::string_view examples;  // a folder of tools/examples whose files are seeds too; or empty
  void (*run)(const std::string& bytes);
  Grammar grammar = {};  // of an interpreter; others have none
};

[[nodiscard]] std::span<const Target> targets();

// Null: there is none of that name.
[[nodiscard]] const Target* find_target(std::string_view name);

enum class Outcome : std::uint8_t { accepted, refused };

// Refused is what ends a command with one line. Everything else that is thrown is a fault, and goes
// on to the caller.
Outcome run(void (*of)(const std::string& bytes), const std::string& bytes);

}  // namespace weir::fuzz
