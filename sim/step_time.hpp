// How long a plan's step takes, and nothing else of its forecast.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "costmodel/table/costs.hpp"
#include "plan/job/cluster.hpp"
#include "plan/job/resolve.hpp"

namespace weir {

// The step_time of forecast() for buffered transfers, without its memory, trace and accounts, which
// take most of the work where a step has millions of operations. Precondition: forecast()'s.
[[nodiscard]] Seconds step_time(const ResolvedPlan& resolved, const Costs& costs,
                                const Cluster& cluster);

}  // namespace weir
