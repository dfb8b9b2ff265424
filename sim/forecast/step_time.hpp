// How long a plan's step takes by several costs, and nothing else of its forecasts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "costmodel/table/layer_costs.hpp"
#include "plan/job/cluster.hpp"
#include "plan/job/resolve.hpp"
#include "sim/engine/compiled_program.hpp"

namespace weir {

// The step_time of forecast() for buffered transfers, without its memory, trace and accounts, which
// take most of the work where a step has millions of operations. `compiled`: the plan's program,
// for all costs; null: it cannot be. Precondition: forecast()'s.
[[nodiscard]] Seconds step_time(const ResolvedPlan& resolved, const CompiledProgram* compiled,
                                const LayerCosts& known, const Cluster& cluster);

}  // namespace weir
