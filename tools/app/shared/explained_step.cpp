// Explains steps by forecasts of changed plans.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/shared/explained_step.hpp"

#include <algorithm>
#include <utility>

#include "costmodel/table/cost_breakdown.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "sim/explain/changes.hpp"
#include "sim/forecast.hpp"

namespace weir::app {

Costs costs_of_changes(const CostsSource& source, const ResolvedPlan& loaded,
                       const Cluster& cluster, const std::optional<Plan>& other) {
  // The plan's own way to split layers, and the one that a change may take.
  std::vector<Split> splits{loaded.plan.split()};
  const auto add = [&](const Split& split) {
    // A split that the model refuses is no change to offer.
    const auto misfit = cannot_split(loaded.model, loaded.plan.seq_length, split);
    if (!misfit && std::ranges::find(splits, split) == splits.end()) splits.push_back(split);
  };
  // The one change of split within the same degrees.
  if (loaded.plan.tp > 1) {
    Split toggled = splits.front();
    toggled.sequence_parallel = !toggled.sequence_parallel;
    add(toggled);
  }
  if (other) {
    Split its = other->split();
    its.expert_load = loaded.plan.expert_load;
    add(its);
  }
  Model layers = loaded.model;
  const auto add_layers = [&](int ranks) {
    Model its = loaded.model;
    set_vocabulary(its, ranks);
    layers.layers.insert(layers.layers.end(), its.layers.begin(), its.layers.end());
  };
  const bool divided = loaded.schedule.shape.shards() > 0;
  const bool to_divided = other && divides_vocabulary(other->schedule);
  // Of the shards' schedules and of the others, which have the tables whole; shards are of either
  // number of ranks.
  if (divided) add_layers(1);
  if (to_divided && !divided) add_layers(loaded.plan.pp);
  if (other && other->pp > 1 && (divided || to_divided)) add_layers(other->pp);
  return load(source, layers, loaded.plan, cluster, std::move(splits));
}

std::int64_t most_explained(const ResolvedPlan& loaded) {
  constexpr std::int64_t kMostExplained = 1 << 18;
  return kMostExplained / loaded.schedule.shape.total_stages();
}

std::optional<StepExplained> explain_step(const StepToExplain& step) {
  const ResolvedPlan& plan = step.plan;
  if (plan.plan.microbatches > most_explained(plan)) return std::nullopt;
  const Costs costs = costs_of_changes(step.costs, plan, step.cluster);
  const LayerCosts known(plan, costs, step.cluster.stack);
  const ForecastResult result = forecast(plan, known, step.cluster);
  StepExplained explained{
      .name = step.name,
      .waterfall = waterfall(plan, cost_breakdown(plan, known, step.cluster), result)};
  if (step.what_if != nullptr) {
    explained.what_if = *step.what_if;
    return explained;
  }
  // One at a time, for each may be the last that there is time for.
  for (Change& change : changes(plan, costs, step.cluster)) {
    if (step.over()) {
      explained.whole = false;
      break;
    }
    std::vector<Change> one;
    one.push_back(std::move(change));
    for (WhatIf& row : what_if(plan, std::move(one), costs, step.cluster, step.forecast))
      explained.what_if.push_back(std::move(row));
  }
  mark_beyond(explained.what_if, plan.plan, step.software);  // puts them in order
  return explained;
}

}  // namespace weir::app
