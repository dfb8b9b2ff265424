// How durations scatter.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <vector>

#include "plan/words/action.hpp"

namespace weir {

// How the durations of one kind of action scatter about their median: quantiles of duration /
// median, evenly spaced from 0 to 1, ascending. Empty or absent: not known.
using Jitter = std::map<ActionKind, std::vector<double>>;

}  // namespace weir
