// What a layer's pass takes at any micro-batch size: its weights are read and their gradients
// written, kernels started. The rest grows with the samples.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "costmodel/layers/layer_time.hpp"

namespace weir {

// The intercept of the line through its times over micro-batch sizes, by least squares of relative
// residuals; at least 0 and at most the shortest time. 0 where one size was measured.
[[nodiscard]] PerKind<Seconds> fixed_part(const LayerCost& cost);

}  // namespace weir
