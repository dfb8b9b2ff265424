// Schedules by rules of thumb: many, for none is the best everywhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "sim/synthesis/problem.hpp"

namespace weir {

// One rule: of all actions that could start next, the earliest; of those that could start before it
// would, the one of the kind that comes first.
struct GreedyRule {
  bool forward_first = false;  // F before I where both are there; else I before F
  bool deeper_first = true;    // of two stages' actions of a kind, the later stage's
  // W where nothing else could start before it ends, as soon as its I has ended, or where nothing
  // else is left to wait for.
  enum class Fill : std::uint8_t { gaps, at_once, last } fill = Fill::gaps;
  std::int32_t ahead =
      0;  // micro-batches that a stage may have in flight; 0: as many as there is room for
  // Before when no micro-batch's first F starts, by micro-batch; empty: any time.
  std::vector<std::int64_t> begins_ns{};
};

// nullopt: the rule runs into a wait without an end. Keeps to the problem's room, and to as much of
// it as lets every rank's later stages go on.
[[nodiscard]] std::optional<Words> greedy_words(const SynthesisProblem& problem,
                                                const GreedyRule& rule);
// All rules of the portfolio.
[[nodiscard]] std::vector<GreedyRule> greedy_portfolio(const SynthesisProblem& problem);

}  // namespace weir
