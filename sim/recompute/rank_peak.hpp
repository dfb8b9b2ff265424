// A rank's memory by the order of its actions alone: what a set of rebuilt layers does to its peak.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "costmodel/table/layer_costs.hpp"
#include "plan/job/cluster.hpp"
#include "plan/job/resolve.hpp"

namespace weir {

// Bytes at the peak: what stages hold and micro-batches keep, and what each action has beside that
// at its worst, all messages gone as soon as they can be. What waits in receive slots, and what
// software reserves over its tensors, is not in it.
[[nodiscard]] std::int64_t rank_peak(const ResolvedPlan& resolved, const LayerCosts& known,
                                     const Cluster& cluster, Rank rank, const Recompute& recompute);

}  // namespace weir
