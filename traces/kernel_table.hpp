// Where the time of the kernels goes: by kernel, and for each kind of action how much of its time
// no kernel ran, which is what launching costs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "traces/kernels.hpp"

namespace weir {

struct KernelRow {
  std::string name;
  std::int64_t calls = 0;
  Nanoseconds total{0};
  double share = 0;  // of the time of all rows
};

// All compute actions of a kind, of all ranks and steps.
struct ActionRow {
  ActionKind kind = ActionKind::F;
  std::int64_t actions = 0;
  std::int64_t kernels = 0;  // copies and fills too
  Nanoseconds time{0};       // from begin to end of each, summed
  Nanoseconds idle{
      0};  // of that, with nothing running: neither kernel nor copy nor fill of the action
  [[nodiscard]] double idle_share() const;  // 0 where there is no time
};

struct KernelTable {
  std::vector<KernelRow>
      kernels;                  // longest total first, then by name; at most as many as asked for
  std::size_t other_names = 0;  // further names, and their rows summed
  KernelRow others;
  Nanoseconds total{0};            // of all kernels; those that ran at the same time both count
  std::vector<ActionRow> actions;  // in the order of ActionKind
};

[[nodiscard]] KernelTable tabulate(const Trace& trace, const KernelTrace& kernels,
                                   std::size_t rows = 20);

// How much of [start, end] none of the intervals covers, in whatever order they are, overlapping or
// reaching beyond it.
[[nodiscard]] Nanoseconds uncovered(Nanoseconds start, Nanoseconds end,
                                    std::vector<std::pair<Nanoseconds, Nanoseconds>> intervals);

}  // namespace weir
