// Partitions worth a simulation: the best by several measures that are quick to minimise. None of
// them is the step time; the fastest busiest stage is not even near where micro-batches are few
// (docs/theory.md 4.2).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/partition/minimax.hpp"

namespace weir {

struct PartitionCandidates {
  std::vector<std::vector<int>> boundaries;  // no two alike
  MinimaxPartition minimax;
  // No partition has a step that is shorter: of chains the least maximum of head + M stage + tail
  // over the stages, else M times the busiest device.
  std::int64_t step_bound_ns = 0;
};

// By the busiest device or link: as even as can be, with early stages as full as can be, without
// regard to messages and to memory. By the largest head + M stage + tail: the same two. And what
// software ships (sim/partition/shipped), which no choice should be worse than. `head_ns`,
// by layer: F and what passes the gradient on (B, or I where backwards are split), for a stage's
// head and tail are those of the stages before it.
[[nodiscard]] PartitionCandidates partition_candidates(const PartitionProblem& problem,
                                                       std::int64_t microbatches,
                                                       const std::vector<std::int64_t>& head_ns);

}  // namespace weir
