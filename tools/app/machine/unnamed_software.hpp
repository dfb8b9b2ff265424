// Forecasts of plans whose software nobody named.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "plan/job/cluster.hpp"
#include "plan/job/resolve.hpp"
#include "sim/forecast/forecast.hpp"

namespace weir::app {

// The interval holds that any software may run the plan, where the forecast is by built-in costs of
// a GPU that is known and the cluster's stack is the call's default; memory's bounds hold it
// already. Else nothing.
void widen_for_unnamed(Forecast& forecast, const ResolvedPlan& resolved, const Cluster& cluster);
// What may run plans of the number format there; none: forecasts by these costs need not hold it.
[[nodiscard]] std::vector<Stack> unnamed_software(Dtype dtype, Basis basis, const Cluster& cluster);

// Memory's lower bound holds what the plan's job says and the plan does not that makes it less
// (tools/jobs/job/doubt): such a plan is never surely unfit where its state alone fits.
void widen_for_job(Forecast& forecast, const ResolvedPlan& resolved, const Cluster& cluster);

}  // namespace weir::app
