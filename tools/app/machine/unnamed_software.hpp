// Forecasts of plans whose software nobody named.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/job/cluster.hpp"
#include "plan/job/resolve.hpp"
#include "sim/forecast.hpp"

namespace weir::app {

// The interval and the memory's bounds hold that any software may run the plan, where the forecast
// is by built-in costs of a GPU that is known and the cluster's stack is the call's default. Else
// nothing.
void widen_for_unnamed(Forecast& forecast, const ResolvedPlan& resolved, const Cluster& cluster);

}  // namespace weir::app
