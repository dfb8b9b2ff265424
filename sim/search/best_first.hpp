// The best plans of a space too large to forecast: candidates in the order of what they can reach
// at best (sim/search/work_bound), until that passes what was found. Of those looked at, memory
// leaves some out by what their order keeps in flight (sim/search/memory_bound); the rest are
// refined and forecast in the order of an estimate. What is estimated to be slower than what was
// found, but might not be, waits until the end, and is looked at while the effort lasts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sim/search/nodes.hpp"
#include "sim/search/result.hpp"

namespace weir {

// Precondition: no choice but v is left open, `request.keep` is given. The result does not depend
// on the number of threads; with a budget of time, on how fast they are.
[[nodiscard]] SweepResult best_first(const SweepRequest& request, const Nodes& nodes,
                                     const SplitCosts& known, const Cluster& cluster);

}  // namespace weir
