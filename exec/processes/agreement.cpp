// One all-gather of a few lines of text.
// SPDX-License-Identifier: Apache-2.0
#include "exec/processes/agreement.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <sstream>

#include "exec/processes/all_gather.hpp"
#include "exec/processes/leader.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// "seed: 2, process 0 has 1"; of two builds the number of lines may differ.
std::string first_difference(const std::vector<std::string>& first,
                             const std::vector<std::string>& other) {
  for (std::size_t i = 0; i < first.size() && i < other.size(); ++i) {
    if (first[i] == other[i]) continue;
    const std::size_t value = first[i].find(": ");
    return fmt::format("{}, process 0 has {}", other[i],
                       value == std::string::npos ? first[i] : first[i].substr(value + 2));
  }
  return "other options of another build";
}

}  // namespace

void require_agreement(Processes& processes, const WhatIsRun& own) {
  std::string text;
  for (const auto& [name, value] : own) text += fmt::format("{}: {}\n", name, value);
  const std::vector<std::string> all = all_gather(processes, text);
  for (std::size_t process = 1; process < all.size(); ++process) {
    if (all[process] == all[0]) continue;
    // One throws, so that its ending is everybody's: the others are stopped while they wait here.
    if (!leads(processes)) processes.barrier();
    throw UsageError(fmt::format("process {} on {} was not given what process 0 was: {}", process,
                                 processes.location(static_cast<int>(process)).host,
                                 first_difference(lines_of(all[0]), lines_of(all[process]))));
  }
}

}  // namespace weir
