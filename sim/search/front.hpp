// The Pareto front of step time and peak memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "sim/search/space/ranking.hpp"

namespace weir {

// Of the plans those of which no other is both faster and no larger, or smaller and no slower,
// fastest first; without those that a smaller one is as fast as within half a hundredth, but for
// the fastest of all.
[[nodiscard]] std::vector<Ranked> pareto_front(std::vector<Ranked> plans);

}  // namespace weir
