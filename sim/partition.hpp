// The best contiguous partition of layers into stages, exactly.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace weir {

// cut_ns[s - 1][l]: how long the messages of one micro-batch keep the link between stages s - 1 and
// s, in the busier direction, where stage s begins with layer l. Empty: boundaries cost nothing.
using CutTimes = std::vector<std::vector<std::int64_t>>;

// Boundaries (index of the first layer of stages 1...) that minimise the time of the slowest stage
// or boundary: neither lets micro-batches follow each other faster, for links work beside the
// stages (PipeDream's partitioner, Narayanan et al., SOSP 2019). Among those the sum of squares of
// all these times (the rest as even as can be); further ties go to the earliest boundaries. Dynamic
// programming over (stage, layer), O(stages layers^2). With more stages than layers each layer is a
// stage, the last one's is the last, and the empty ones stand before it. Precondition: stages,
// layers >= 1, times >= 0; as many cuts as boundaries, each for every layer, or none.
[[nodiscard]] std::vector<int> best_boundaries(std::span<const std::int64_t> layer_time_ns,
                                               int stages, const CutTimes& cut_ns = {});

}  // namespace weir
