// Picks the front, and thins it.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/front.hpp"

#include <algorithm>
#include <utility>

namespace weir {

std::vector<Ranked> pareto_front(std::vector<Ranked> plans) {
  rank(plans);
  std::erase_if(plans, [](const Ranked& ranked) { return !ranked.pareto; });
  // A ranking has what surely fits first.
  std::ranges::stable_sort(plans, {},
                           [](const Ranked& ranked) { return ranked.forecast.step_time; });
  constexpr double kAsFast = 1.005;
  std::vector<Ranked> thinned;  // smallest first
  // From the smallest, which is the slowest, to the fastest: of neighbours in time the smaller
  // stays, and the fastest in any case.
  for (std::size_t i = plans.size(); i-- > 0;) {
    const bool near = !thinned.empty() &&
                      thinned.back().forecast.step_time <= kAsFast * plans[i].forecast.step_time;
    if (!near || i == 0) thinned.push_back(std::move(plans[i]));
  }
  std::ranges::reverse(thinned);
  return thinned;
}

}  // namespace weir
