// The contiguous partition whose busiest device or link has the least to do, with a proof or a
// bound: neither lets micro-batches follow each other faster (PipeDream's partitioner, Narayanan et
// al., SOSP 2019, section 3.1, without replication).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "sim/partition/problem.hpp"

namespace weir {

enum class PartitionProof : std::uint8_t {
  optimal,     // no partition has a faster busiest device or link
  bounded,     // none has one faster than the lower bound; the budget ended before more was known
  infeasible,  // no partition keeps to the devices' memory
  unknown,     // none was found that does, within the budget
};

struct MinimaxPartition {
  PartitionProof proof = PartitionProof::unknown;
  std::vector<int> boundaries;  // first layers of stages 1...; none where none was found
  std::int64_t slowest_ns = 0;
  std::int64_t lower_bound_ns = 0;
  // How far it may be from the best: slowest / lower bound - 1.
  [[nodiscard]] double gap() const;
};

// Every stage gets a layer. With a device and a link for each stage and boundary, by parametric
// search over the time T: which layers can begin a stage under T follows from those that can begin
// the one before, so one T takes O(stages layers), and where all devices are equal and boundaries
// cost nothing O(stages log layers). Always optimal. With shared devices (V, interleaved,
// bidirectional) by the same search, its decision a set of partial partitions built from both ends
// of the chain where first and last stages share devices, else from the first layer; exact up to
// `budget` of them, after that a descent's result with its bound. Precondition: 1 <= stages <=
// layers, times >= 0.
[[nodiscard]] MinimaxPartition minimax_partition(const PartitionProblem& problem,
                                                 std::int64_t budget = 1 << 17);

}  // namespace weir
