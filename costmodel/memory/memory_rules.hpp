// How a machine's allocator and software hold a plan's tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/job/cluster.hpp"
#include "plan/job/stack.hpp"
#include "plan/model/model_part.hpp"
#include "plan/words/units.hpp"

namespace weir {

// What device and software add to the tensors themselves.
struct MemoryRules {
  Allocator allocator = Allocator::arena;
  Bytes process_overhead{0};
  Stack stack = {};
  const ModelPart* part = nullptr;  // as the stack keeps it; none: the plan's own
  double host_ahead = 1;            // StageCosts::host_ahead()
};
[[nodiscard]] MemoryRules memory_rules(const Cluster& cluster, const ModelPart& part);

}  // namespace weir
