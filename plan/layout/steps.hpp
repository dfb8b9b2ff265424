// Steps over time: of a layer with a dimension of time, which tensors there are once a step.
//
//   xt = step(x) over time     what step, or a state, gives to an operation makes its output one of
//   h = carry(n) over time     a step; stack puts them side by side again. All else of the layer is
//   y = stack(n) over time     before the first step or behind the last.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/layout/network.hpp"

namespace weir::layout {

// Sets `time` and `stepwise` of a layer whose operations are read. Throws std::invalid_argument, in
// words, where steps cannot follow each other so.
void find_steps(const Network& network, NetworkLayer& layer);

}  // namespace weir::layout
