// Connecting edges pairwise without waiting in circles: in each round a process has at most one
// edge to connect, and all go through the rounds in order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace weir {

// The round of each edge (an edge colouring, greedy: each edge in the first round in which both its
// ends are free, at most 2 d - 1 rounds where no process has more than d edges).
[[nodiscard]] std::vector<int> connection_rounds(
    const std::vector<std::pair<std::int32_t, std::int32_t>>& edges);

}  // namespace weir
