// The most even of the partitions with the fastest busiest stage.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/partition/problem.hpp"

namespace weir {

// Boundaries (index of the first layer of stages 1...) that minimise the time of the slowest stage
// or boundary (sim/partition/minimax). Among those the sum of squares of all these times (the rest
// as even as can be); further ties go to the earliest boundaries. With more stages than layers each
// layer is a stage, the last one's is the last, and the empty ones stand before it. Precondition:
// stages, layers >= 1, times >= 0; as many cuts as boundaries, each for every layer, or none.
[[nodiscard]] std::vector<int> best_boundaries(std::span<const std::int64_t> layer_time_ns,
                                               int stages, const CutTimes& cut_ns = {});

}  // namespace weir
