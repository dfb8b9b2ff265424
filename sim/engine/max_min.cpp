// Progressive filling (docs/theory.md 6.5).
// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/max_min.hpp"

#include <algorithm>
#include <limits>

namespace weir {

std::vector<double> max_min_rates(std::span<const Flow> flows, std::span<const double> capacities) {
  std::vector<double> rates(flows.size(), 0), left(capacities.begin(), capacities.end());
  std::vector<std::int32_t> open(capacities.size(),
                                 0);  // flows of a resource whose rate is not settled
  std::vector<bool> settled(flows.size(), false);
  for (const Flow& flow : flows) {
    for (const std::int32_t r : flow.resources) ++open[static_cast<std::size_t>(r)];
  }
  const auto fair_share = [&](const Flow& flow) {
    double share = flow.limit;
    for (const std::int32_t r : flow.resources) {
      const auto i = static_cast<std::size_t>(r);
      share = std::min(share, std::max(left[i], 0.0) / open[i]);
    }
    return share;
  };
  for (std::size_t unsettled = flows.size(); unsettled > 0;) {
    // The next level: the least fair share of those whose rate is still open.
    double level = std::numeric_limits<double>::infinity();
    for (std::size_t f = 0; f < flows.size(); ++f) {
      if (!settled[f]) level = std::min(level, fair_share(flows[f]));
    }
    // Everyone held at this level by a limit or a full resource keeps it; the others go on rising.
    std::vector<std::size_t> held;
    for (std::size_t f = 0; f < flows.size(); ++f) {
      if (!settled[f] && fair_share(flows[f]) <= level) held.push_back(f);
    }
    for (const std::size_t f : held) {
      rates[f] = level;
      settled[f] = true;
      for (const std::int32_t r : flows[f].resources) {
        left[static_cast<std::size_t>(r)] -= level;
        --open[static_cast<std::size_t>(r)];
      }
    }
    unsettled -= held.size();
  }
  return rates;
}

}  // namespace weir
