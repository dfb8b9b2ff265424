// What the times of a cost table are made of: the layers' own kernels, what is computed again, what
// each kind of parallelism sends, and the host. The parts of a stage's action sum to its time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "costmodel/table/cost_table.hpp"
#include "costmodel/table/layer_costs.hpp"
#include "costmodel/table/per_cause.hpp"
#include "plan/job/cluster.hpp"
#include "plan/job/resolve.hpp"
#include "plan/words/per_kind.hpp"
#include "plan/words/units.hpp"

namespace weir {

struct CostBreakdown {
  CostTable table;
  // By global stage, one micro-batch (the update once a step): the parts of each kind sum to
  // table.stages[stage][kind] exactly. Within `rematerialised` is the stage's `rebuild`, all of it;
  // an R is nothing else.
  std::vector<PerKind<PerCause<Nanoseconds>>> stages;
  // By global stage, of `host`: the wait for copies to and from its memory, and its own update.
  std::vector<PerKind<Nanoseconds>> offloaded;
};

// Throws as cost_table does.
[[nodiscard]] CostBreakdown cost_breakdown(const ResolvedPlan& resolved, const LayerCosts& known,
                                           const Cluster& cluster);

}  // namespace weir
