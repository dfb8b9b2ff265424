// On which nodes a candidate's ranks may stand where a cluster has several kinds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "plan/job/cluster.hpp"
#include "plan/job/plan.hpp"

namespace weir {

// Whole ranks in one pool each: pools are filled one after the other, in every order, and those
// that are taken stand in the pipeline in every order. Where that leaves ranks over, or where the
// plan numbers its ranks otherwise, the one placement that fills nodes in their order: empty, as it
// is of a cluster of one kind.
[[nodiscard]] std::vector<std::vector<PlacedRanks>> placements(const Plan& plan,
                                                               const Cluster& cluster);

}  // namespace weir
