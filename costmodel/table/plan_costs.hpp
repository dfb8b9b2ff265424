// What a plan's stages and messages take: one table, by which all engines time it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "costmodel/table/cost_table.hpp"
#include "costmodel/table/costs.hpp"
#include "costmodel/table/layer_costs.hpp"
#include "plan/job/cluster.hpp"
#include "plan/job/resolve.hpp"
#include "plan/words/units.hpp"

namespace weir {

struct CostTableResult {
  CostTable table;
  std::vector<Bytes> scratch;  // per rank: library scratch memory, for memory_peaks
  bool inside_range = true;    // every layer and micro-batch size lies within what was measured
  std::vector<std::string> warnings;  // what was extrapolated, one line each
  double device_over_host = 0;        // StageCosts::device_over_host()
};

// Stage costs of a plan, of one device of each stage. A split layer that the costs do not have
// takes the whole layer's time divided by tp and cp, with a warning; to that comes what it sends
// (costmodel/links/parallel). Throws InputError where a stage has no layer and the cluster's stack
// cannot leave one empty, and as dynamic_costs does.
[[nodiscard]] CostTableResult cost_table(const ResolvedPlan& resolved, const LayerCosts& known,
                                         const Cluster& cluster);
// The same, matched for this plan alone. Throws InputError when a layer of the model is not in the
// costs.
[[nodiscard]] CostTableResult cost_table(const ResolvedPlan& resolved, const Costs& costs,
                                         const Cluster& cluster);

}  // namespace weir
