// A question that a search answers, and its answer. The first one is for the best plans of the
// whole space; others follow, for the best of a part of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "sim/search/refiner.hpp"
#include "sim/search/space/left_out.hpp"

namespace weir {

struct Goal {
  std::function<bool(const Plan&)> wants{};  // as Family::has; none: every candidate
  // An expected peak of at most so much, and the shortest step first; none: what the request's
  // memory surely holds goes first.
  std::optional<Bytes> memory{};
  int keep = 1;
  int effort = 0;      // candidates refined for it, before it settles for a gap
  int exact = 0;       // of them so many, before it settles for being close
  double close = 0;    // it settles where no other plan can be faster by more than this share
  bool whole = false;  // the first one, of which there is a checkpoint
  std::optional<double> until{};  // seconds since the search began
};

// A candidate at its best cut.
struct Found {
  std::uint32_t node = 0;
  Cut cut;
};

struct Answer {
  std::vector<Found> best;                              // best first
  double open_ns = std::numeric_limits<double>::max();  // least bound of what was not looked at
  bool any = false;                                     // whether any candidate is wanted
  std::vector<LeftOut> left_out{};
  [[nodiscard]] double gap() const {
    if (best.empty() || open_ns == std::numeric_limits<double>::max()) return 0;
    return std::max(0.0, best.front().cut.step.count() * 1e9 / open_ns - 1);
  }
};

// What a node's outcome is worth to a goal: its cut that goes first; none: it has none that is
// wanted.
[[nodiscard]] std::optional<Cut> best_cut(const Outcome& outcome, std::optional<Bytes> memory);

}  // namespace weir
