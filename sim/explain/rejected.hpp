// What a search's best plan was preferred to: of each other schedule, way to re-materialise, ZeRO
// stage and degree the best plan there is, or why there is none.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/search/result.hpp"
#include "sim/search/space.hpp"

namespace weir {

struct Rejected {
  std::string choice;          // schedule, re-materialisation, ZeRO, K, tp, cp, dp or ep
  std::string value;           // "gpipe"
  std::optional<Ranked> best;  // of the space's plans with it; none: nothing fits, or can be
  double ratio = 0;            // its step over the best plan's
  double gap = 0;              // by which share another plan with it may be faster; 0: none can be
  std::string reason;          // why there is none; empty: there is one
};

// Every value of the space that the best plan has not, in the space's order. The best plan with it
// is the first of those listed; where none is, the space is searched again with that value alone,
// less long. A schedule's plans have at least two ranks, a ZeRO stage's above 0 have replicas.
// Preconditions: `result` is of `request`, whose choices but v are made
// (sim/search/open_choices), and has a plan.
[[nodiscard]] std::vector<Rejected> rejected(const SweepRequest& request, const SweepResult& result,
                                             const Costs& costs, const Cluster& cluster);

// The plans that are listed, and the best with each other value: those of which no other is both
// faster and no larger, or smaller and no slower. Fastest first.
[[nodiscard]] std::vector<Ranked> pareto_front(std::vector<Ranked> plans,
                                               const std::vector<Rejected>& others);

}  // namespace weir
