// The planner's choice of what to re-materialise: --recompute auto.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "costmodel/memory/fits.hpp"
#include "costmodel/table/layer_costs.hpp"
#include "plan/job/cluster.hpp"
#include "plan/job/resolve.hpp"
#include "plan/words/units.hpp"

namespace weir {

struct AutomaticRecompute {
  Recompute recompute;
  Seconds step{0};          // forecast with it
  Fits fits = Fits::yes;    // no: nothing that may be rebuilt makes the plan fit
  bool exact = true;        // no set of layers that fits takes a rank less time
  std::vector<int> layers;  // by rank, how many are rebuilt
};

// Where nothing needs rebuilding, none. Otherwise each rank rebuilds the blocks that take the least
// time of all sets with which its peak in the forecast (its own schedule, micro-batches in flight,
// slots and workspace) keeps to `limit`: by its upper bound where some set does that, else by its
// expectation. Selective, where it fits every rank too and makes the step shorter. Written as
// `full` where that is every block, else as layers. The plan's own recompute is not read.
[[nodiscard]] AutomaticRecompute automatic_recompute(const ResolvedPlan& resolved,
                                                     const LayerCosts& known,
                                                     const Cluster& cluster, Bytes limit);

// "recompute: 12 layers, 4 3 3 2 by rank, the least that fits".
[[nodiscard]] std::string describe(const AutomaticRecompute& chosen);

}  // namespace weir
