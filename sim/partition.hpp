// The best contiguous partition of layers into stages, exactly.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace weir {

// Boundaries (index of the first layer of stages 1...) that minimise the time of the slowest stage, and among those the
// sum of squares of the stage times (the rest as even as can be); further ties go to the earliest boundaries.
// Dynamic programming over (stage, layer), O(stages layers^2). Precondition: 1 <= stages <= layers, times >= 0.
[[nodiscard]] std::vector<int> best_boundaries(std::span<const std::int64_t> layer_time_ns, int stages);

}  // namespace weir
