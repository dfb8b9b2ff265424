// Prices stages, and asks before whether the costs can.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/table/plan_costs.hpp"

#include <algorithm>
#include <utility>

#include "costmodel/table/backward_halves.hpp"
#include "costmodel/table/dynamic_context.hpp"
#include "costmodel/table/stage_costs.hpp"
#include "plan/schedule/shard_passes.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

bool divides_backward(const Schedule& schedule) {
  return std::ranges::any_of(schedule.order, [](const auto& order) {
    return std::ranges::any_of(order, [](const Action& a) { return a.kind == ActionKind::I; });
  });
}

}  // namespace

CostTableResult cost_table(const ResolvedPlan& resolved, const LayerCosts& known,
                           const Cluster& cluster) {
  require_stages(resolved, cluster.stack);
  // With one barrier a shard's S has the I of its layers.
  const bool apart = waits_for_forwards(resolved.schedule.shape.vocabulary);
  if (apart || divides_backward(resolved.schedule)) {
    if (const auto reason = unknown_halves(known))
      throw InputError(known.costs().file, "layers", *reason + ", which the plan's schedule needs");
  }
  const StageCosts costs(resolved.plan, known, cluster);
  const ScheduleShape& shape = resolved.schedule.shape;
  std::vector<std::string> warnings = costs.warnings();
  const bool inside = warnings.empty();
  CostTable table = costs.table(shape, resolved.stages, resolved.ties);
  if (resolved.plan.lengths.dynamic_cp > 0) {
    StageCost& stage = table.stages.front();
    stage = dynamic_costs(resolved, known, cluster, stage).stage;
  }
  return {std::move(table), costs.scratch(shape, resolved.stages), inside, std::move(warnings),
          costs.device_over_host()};
}

CostTableResult cost_table(const ResolvedPlan& resolved, const Costs& costs,
                           const Cluster& cluster) {
  return cost_table(resolved, LayerCosts(resolved, costs, cluster.stack), cluster);
}

}  // namespace weir
