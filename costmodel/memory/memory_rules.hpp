// How a machine's allocator and software hold a plan's tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <vector>

#include "plan/job/cluster.hpp"
#include "plan/job/plan.hpp"
#include "plan/job/stack.hpp"
#include "plan/model/model_part.hpp"
#include "plan/words/units.hpp"

namespace weir {

// What device and software add to the tensors themselves.
struct MemoryRules {
  Allocator allocator = Allocator::arena;
  Bytes process_overhead{0};
  std::vector<Bytes> rank_process;  // of each rank, where they stand on several kinds of nodes
  Stack stack = {};
  const ModelPart* part = nullptr;  // as the stack keeps it; none: the plan's own
  int devices_per_node = 1;
  // StageCosts::device_over_host(): how far the host runs ahead.
  double device_over_host = std::numeric_limits<double>::infinity();
};
// The stack's, where it says them, else the device's; of several kinds the least.
[[nodiscard]] Bytes process_overhead(const Cluster& cluster);
[[nodiscard]] MemoryRules memory_rules(const Cluster& cluster, const ModelPart& part);
// The same for the ranks of one plan.
[[nodiscard]] MemoryRules memory_rules(const Plan& plan, const Cluster& cluster,
                                       const ModelPart& part);
// What the devices of each rank have at least, where they stand on several kinds of nodes; else
// empty.
[[nodiscard]] std::vector<Bytes> rank_memory(const Plan& plan, const Cluster& cluster);
// Of each rank, what it may hold: the limit, or less where its devices have less.
[[nodiscard]] std::vector<Bytes> rank_limits(const Plan& plan, const Cluster& cluster, Bytes limit);

}  // namespace weir
