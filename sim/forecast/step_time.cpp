// Costs, virtual time, and the last event of it.
// SPDX-License-Identifier: Apache-2.0
#include "sim/forecast/step_time.hpp"

#include <stdexcept>
#include <variant>

#include "costmodel/table/plan_costs.hpp"
#include "sim/engine/compiled_engine.hpp"
#include "sim/engine/event_engine.hpp"
#include "sim/forecast/priced_program.hpp"

namespace weir {

Seconds step_time(const ResolvedPlan& resolved, const CompiledProgram* compiled,
                  const LayerCosts& known, const Cluster& cluster) {
  const Program& program = resolved.program;
  const Costs& costs = known.costs();
  const CostTableResult priced = cost_table(resolved, known, cluster);
  const Contention contention = contention_of(program, resolved.plan, costs, cluster);
  const Nanoseconds overhead = to_nanoseconds(costs.anchored_step_overhead());
  // The compiled engine knows of no links that are shared.
  if (compiled != nullptr && contention.none())
    return to_seconds(CompiledEngine(*compiled).makespan(priced.table) + overhead);
  const auto outcome = simulate(program, expand(program, priced.table), contention);
  if (const auto* stuck = std::get_if<Stuck>(&outcome)) throw std::logic_error(stuck->report);
  return to_seconds(std::get<Timing>(outcome).makespan + overhead);
}

}  // namespace weir
