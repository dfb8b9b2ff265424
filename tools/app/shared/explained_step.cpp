// Explains steps by forecasts of changed plans.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/shared/explained_step.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "costmodel/table/cost_breakdown.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "tools/reproduce/known_software.hpp"

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

namespace {

// Products in the other format: in 8 bits where the device has units for them, or not.
std::optional<Change> other_products(const ResolvedPlan& loaded, const Cluster& cluster) {
  Plan plan = loaded.plan;
  if (bytes_per_element(plan.dtype) != 2 || cluster.stack.fp8 || !cluster.device.kernels)
    return std::nullopt;
  const bool in_8_bits = plan.fp8 != Fp8Recipe::none;
  if (!in_8_bits && cluster.device.peak_fp8.count() <= 0) return std::nullopt;
  plan.fp8 = in_8_bits ? Fp8Recipe::none : Fp8Recipe::delayed;
  if (in_8_bits) plan.fp8_parameters = false;
  std::string to = in_8_bits ? std::string(to_string(plan.dtype)) : "8 bits (delayed)";
  return Change{"products", std::move(to), std::move(plan), {}, {}};
}

// Of layers that are not yet known.
void add_layers(Costs& to, const Costs& from) {
  for (const LayerCost& layer : from.layers) {
    if (std::ranges::find(to.layers, layer.key, &LayerCost::key) == to.layers.end())
      to.layers.push_back(layer);
  }
  for (std::size_t kind = 0; kind < to.other_kinds.size(); ++kind)
    add_layers(to.other_kinds[kind], from.other_kinds[kind]);
}

// A pipeline of one chunk a rank with its vocabulary divided over the ranks; costs gain the layers
// that its shards have.
void add_divided(const CostsSource& source, const ResolvedPlan& loaded, const Cluster& cluster,
                 Costs& costs, std::vector<Change>& all) {
  const Plan& plan = loaded.plan;
  if (plan.pp == 1 || plan.vpp > 1 || plan.slices > 1 || plan.schedule.ends_with(".csv")) return;
  for (const Generator& generator : vocabulary_generators()) {
    Plan divided = plan;
    divided.schedule = generator.name;
    if (divided.schedule == plan.schedule || cannot_divide(loaded.model, divided)) continue;
    add_layers(costs, costs_of_changes(source, loaded, cluster, divided));
    for (Change& change : changes_towards(loaded, divided, costs, cluster))
      if (change.choice == "schedule") all.push_back(std::move(change));
  }
}

}  // namespace

std::vector<Change> all_changes(const CostsSource& source, const ResolvedPlan& loaded,
                                const Cluster& cluster, Costs& costs) {
  std::vector<Change> all = changes(loaded, costs, cluster);
  // What was measured was none of these layers.
  if (!stands_on_builtin(costs.basis)) return all;
  add_divided(source, loaded, cluster, costs, all);
  auto products = other_products(loaded, cluster);
  if (!products) return all;
  const ResolvedPlan other = changed(loaded, products->plan);
  add_layers(costs, load(source, other.model, other.plan, cluster, {other.plan.split()}));
  // First: where there is time for few they are those that bring most.
  all.insert(all.begin(), *std::move(products));
  return all;
}

std::function<std::string()> within(Seconds time) {
  const auto begin = std::chrono::steady_clock::now();
  return [begin, time]() -> std::string {
    const Seconds gone = std::chrono::steady_clock::now() - begin;
    return gone >= time ? "its time was over" : "";
  };
}

std::int64_t most_explained(const ResolvedPlan& loaded) {
  constexpr std::int64_t kMostExplained = 1 << 18;
  return kMostExplained / loaded.schedule.shape.total_stages();
}

StepExplained explain_step(const StepToExplain& step) {
  const ResolvedPlan& plan = step.plan;
  StepExplained explained{.name = step.name, .stack = whose_abilities(step.cluster.stack.name)};
  if (const std::int64_t most = most_explained(plan); plan.plan.microbatches > most) {
    explained.unexplained =
        fmt::format("it has {} micro-batches, of which at most {} can be explained",
                    plan.plan.microbatches, most);
    return explained;
  }
  const LayerCosts known(plan, step.costs, step.cluster.stack);
  explained.waterfall = waterfall(plan, cost_breakdown(plan, known, step.cluster), step.result);
  if (step.what_if != nullptr) {
    explained.what_if = *step.what_if;
    return explained;
  }
  const auto over = [&] {
    if (step.over) explained.cut = step.over();
    return !explained.cut.empty();
  };
  if (over()) return explained;
  Costs costs = costs_of_changes(step.source, plan, step.cluster);
  std::vector<Change> all = all_changes(step.source, plan, step.cluster, costs);
  const int count = static_cast<int>(all.size());
  // One at a time, for each may be the last that there is time for.
  for (int i = 0; i < count && !over(); ++i) {
    std::vector<Change> one;
    one.push_back(std::move(all[i]));
    for (WhatIf& row : what_if(plan, std::move(one), costs, step.cluster, step.forecast))
      explained.what_if.push_back(std::move(row));
    if (step.progress) step.progress(i + 1, count);
  }
  if (step.progress && !explained.cut.empty()) step.progress(1, 1);  // wipes the bar
  mark_beyond(explained.what_if, plan.plan, step.software);          // puts them in order
  return explained;
}

}  // namespace weir::app
