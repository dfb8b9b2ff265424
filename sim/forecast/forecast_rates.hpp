// What a step's time makes of its work: rates, and what an hour costs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "plan/job/cluster.hpp"
#include "plan/job/resolve.hpp"
#include "plan/words/price.hpp"
#include "sim/forecast/forecast_record.hpp"

namespace weir {

// Precondition: the forecast's step time is known.
void add_rates(Forecast& forecast, const ResolvedPlan& resolved, const Cluster& cluster);

// Of an hour of all of a plan's devices, so many where all are of one kind; none where one of them
// has no price.
[[nodiscard]] std::optional<Price> price_per_hour(const Plan& plan, const Cluster& cluster,
                                                  int of_one_kind);

}  // namespace weir
