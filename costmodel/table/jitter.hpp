// How durations scatter.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "plan/words/per_kind.hpp"

namespace weir {

// How the durations of one kind of action scatter about what is typical of their stage (the mean in
// a step, the median over steps): quantiles of duration / typical, evenly spaced from 0 to 1,
// ascending. Empty: not known.
using Jitter = PerKind<std::vector<double>>;

}  // namespace weir
