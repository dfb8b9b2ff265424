// What a search's best plan was preferred to: of each other schedule, way to re-materialise, ZeRO
// stage and degree the best plan there is, or why there is none.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/search/result.hpp"
#include "sim/search/space/space.hpp"

namespace weir {

struct Rejected {
  std::string choice;          // schedule, re-materialisation, ZeRO, K, tp, cp, dp, ep or etp
  std::string value;           // "gpipe"
  std::optional<Ranked> best;  // of the space's plans with it; none: nothing fits, or can be
  double ratio = 0;            // its step over the best plan's
  double gap = 0;              // by which share another plan with it may be faster; 0: none can be
  std::string reason;          // why there is none; empty: there is one
};

// Every value of the space's lists, in its order: what a search is to find the best plan of each
// of. A schedule's plans have at least two ranks. Precondition: the request's choices but v are
// made (sim/search/space/open_choices).
[[nodiscard]] std::vector<Family> families_of(const SweepRequest& request);

// Those values that the best plan has not. Precondition: `result` is of `request`, which asked for
// families_of() it, and has a plan. Where the space has no candidate with a value, the reason is
// found by a search of that value alone, until `over`, which they ask, says that there is no more
// time, or the request's signal comes; what the search, or these, did not come to is said to be so.
[[nodiscard]] std::vector<Rejected> rejected(const SweepRequest& request, const SweepResult& result,
                                             const Costs& costs, const Cluster& cluster,
                                             const std::function<bool()>& over = {});

}  // namespace weir
