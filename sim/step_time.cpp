// Costs, virtual time, and the last event of it.
// SPDX-License-Identifier: Apache-2.0
#include "sim/step_time.hpp"

#include <stdexcept>
#include <variant>

#include "costmodel/table/stage_costs.hpp"
#include "sim/engine/event_engine.hpp"
#include "sim/forecast.hpp"

namespace weir {

Seconds step_time(const ResolvedPlan& resolved, const Costs& costs, const Cluster& cluster) {
  const Program& program = resolved.program;
  const CostTableResult table =
      cost_table(resolved, LayerCosts(resolved, costs, cluster.stack), cluster);
  const auto outcome = simulate(program, expand(program, table.table),
                                contention_of(program, resolved.plan, costs, cluster));
  if (const auto* stuck = std::get_if<Stuck>(&outcome)) throw std::logic_error(stuck->report);
  return to_seconds(std::get<Timing>(outcome).makespan +
                    to_nanoseconds(costs.anchored_step_overhead()));
}

}  // namespace weir
