// What a forecast's time stands on, and within what it is right.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "costmodel/table/costs.hpp"
#include "plan/job/cluster.hpp"
#include "plan/job/plan.hpp"
#include "sim/forecast/forecast_record.hpp"

namespace weir {

// Precondition: step time and jitter_spread are known. `inside_sizes`: of what was timed, the
// plan's layers are of sizes between those. Measured times hold for as many ranks as the machine
// has devices; an interval only where plans like this one set it.
void add_basis(Forecast& f, const Plan& plan, const Costs& costs, const Cluster& cluster,
               bool inside_sizes);

}  // namespace weir
