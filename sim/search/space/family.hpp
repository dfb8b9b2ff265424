// Rows of what a search's best plan was preferred to: the plans of its space that have one value of
// a choice, and the best of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plan/job/plan.hpp"
#include "sim/search/space/left_out.hpp"
#include "sim/search/space/ranking.hpp"

namespace weir {

struct Family {
  std::string choice, value;
  // Reads neither v nor boundaries nor slots.
  std::function<bool(const Plan&)> has;
  bool beside_best = false;  // no search of its own where the best plan is one of it
};

struct FamilyBest {
  std::optional<Ranked> best;  // of all plans that the search has looked at, for whatever question
  double gap = 0;              // by which share another plan of the family may be faster; infinity:
                               // not all were come to
  bool any = true;             // whether the space has a candidate of the family
  // No plan was found, but the search ended before it had looked at all that may have one.
  bool not_come_to = false;
  std::vector<LeftOut> left_out{};  // where there is no best: why not
};

}  // namespace weir
