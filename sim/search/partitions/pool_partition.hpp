// Partitions of a plan's layers over ranks that stand on several kinds of nodes: evened out in
// time, as memory allows, which faster devices with more layers on them need most of.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "costmodel/table/layer_costs.hpp"
#include "plan/job/cluster.hpp"
#include "plan/job/plan.hpp"
#include "sim/partition/problem.hpp"

namespace weir {

// A stage as a device of its own, as fast as the slowest of the ranks that hold it, with its share
// of their memory; with as many micro-batches in flight as 1F1B keeps (docs/theory.md 2.3), with
// several stages a rank the mean of Megatron's interleaved order.
[[nodiscard]] PartitionProblem pool_problem(const Plan& plan, const LayerCosts& known,
                                            const Cluster& cluster, const ScheduleShape& shape);

// The best of those that keep to the memory; where none does, of all.
[[nodiscard]] std::vector<int> pool_boundaries(PartitionProblem problem);

}  // namespace weir
