// From the partition that evens out the stages to the one that makes the step shortest: not the
// same where stages differ or messages take time (docs/theory.md 4.2).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "costmodel/table/layer_costs.hpp"
#include "plan/job/cluster.hpp"
#include "plan/job/resolve.hpp"

namespace weir {

struct Refined {
  std::vector<int> boundaries;
  int evaluated = 0;     // partitions whose step time was computed
  bool optimal = false;  // they were all there are
};

// Where there are at most 128 partitions, the one with the shortest step. Otherwise a descent from
// the plan's boundaries: of all partitions that differ by one layer moved across one boundary, the
// one with the shortest step, until none is shorter; a local optimum. Never worse than where it
// began. Step times are the compiled engine's, exact for private links; ties keep the earlier
// partition, and equal neighbours go to the lowest boundary moved down first.
[[nodiscard]] Refined refine_boundaries(const ResolvedPlan& resolved, const LayerCosts& known,
                                        const Cluster& cluster);

}  // namespace weir
