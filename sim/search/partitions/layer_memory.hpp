// What each layer holds, for partitions that keep to the devices' memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "costmodel/table/layer_costs.hpp"
#include "plan/job/cluster.hpp"
#include "plan/job/plan.hpp"
#include "sim/partition/problem.hpp"

namespace weir {

// `held` and `kept` of each layer, and `capacity` of each rank: its devices' memory without what a
// process takes, room for the largest layer's backward, and receive slots. What is in flight is the
// schedule's, and left empty.
[[nodiscard]] PartitionMemory layer_memory(const Plan& plan, const LayerCosts& known,
                                           const Cluster& cluster);

}  // namespace weir
