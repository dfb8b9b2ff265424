// Why ranks were idle, as forecast and as it was: shares of all rank-time of a step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <vector>

#include "traces/compare.hpp"

namespace weir {

// One a cause, in the order of kIdleCauses.
using SharesByCause = std::array<double, kIdleCauses.size()>;

struct IdleShares {
  SharesByCause predicted{}, measured{};
};

// Of one step; they sum to its bubble.
[[nodiscard]] SharesByCause shares_of(const StepMetrics& metrics);

// Means over plans that were run, each by its step of median length.
[[nodiscard]] IdleShares idle_shares(const std::vector<Comparison>& runs);

}  // namespace weir
