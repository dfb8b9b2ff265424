// What a weight is when a run begins.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "plan/job/resolve.hpp"

namespace weir {

struct ParameterState {
  std::vector<float> values;          // row-major
  std::vector<float> state1, state2;  // the optimizer's; empty: zeros
};

// By the weight's first use and what it is there; called by several threads at once.
using StateSource = std::function<ParameterState(ParameterId weight, const ParameterTensor&)>;

// Initial weights by the plan's seed. `loaded` outlives it.
[[nodiscard]] StateSource seeded_state(const ResolvedPlan& loaded);

}  // namespace weir
