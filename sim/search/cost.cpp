// Forecasts one candidate, evenly cut and refined.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/cost.hpp"

#include <cmath>
#include <utility>
#include <variant>

#include "costmodel/memory/stage_memory.hpp"
#include "plan/job/derive.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/words/error.hpp"
#include "sim/search/partitions/kept_together.hpp"
#include "sim/search/partitions/pool_partition.hpp"
#include "sim/search/partitions/refine.hpp"

namespace weir {

SplitCosts::Layers SplitCosts::layers_of(const Plan& plan) {
  return {plan.split(), divides_vocabulary(plan.schedule) ? plan.pp : 1};
}

const Model& SplitCosts::divided(int ranks) {
  const auto [found, fresh] = divided_.try_emplace(ranks, model_);
  if (fresh) set_vocabulary(found->second, ranks);
  return found->second;
}

const LayerCosts& SplitCosts::add(const Plan& plan) {
  const Layers layers = layers_of(plan);
  const auto found = by_layers_.find(layers);
  if (found != by_layers_.end()) return found->second.costs;
  const Model& model = layers.second == 1 ? model_ : divided(layers.second);
  Known known{LayerCosts(plan, model, costs_, stack_), software_parts(plan, model, costs_, stack_)};
  return by_layers_.try_emplace(layers, std::move(known)).first->second.costs;
}

std::optional<std::string> SplitCosts::add_divided(const Plan& plan) {
  if (auto reason = lacks(plan)) return reason;
  try {
    add(plan);
  } catch (const InputError& unknown) {
    lacking_.try_emplace(layers_of(plan), unknown.what());
  }
  return lacks(plan);
}

std::optional<std::string> SplitCosts::lacks(const Plan& plan) const {
  const auto found = lacking_.find(layers_of(plan));
  return found == lacking_.end() ? std::nullopt : std::optional(found->second);
}

namespace {

// As resolve() would have it: the model's hash was checked once, the schedule proved with its slots
// (sim/search/space/legality).
ResolvedPlan derived(const Plan& plan, const LayerCosts& costs, ShapePrograms& shape) {
  return derive(plan, costs.model(), shape.schedule(), costs.part(),
                [&](const Schedule& /*its*/, const LoweringOptions& options) {
                  return shape.program(options);
                });
}

Ranked forecast_of(const ResolvedPlan& resolved, const CandidateSources& sources,
                   std::optional<Bytes> memory_limit) {
  const LayerCosts& costs = sources.known.of(resolved.plan);
  ForecastOptions options{.detail = sources.detail,
                          .software = &sources.known.software(resolved.plan)};
  if (sources.detail == ForecastDetail::order) options.only_if_within = memory_limit;
  Ranked now{resolved.plan, forecast(resolved, costs, sources.cluster, options).forecast};
  // What only the leanest software could hold is no candidate.
  now.forecast.leanest.clear();
  now.forecast.memory_limit = memory_limit;
  if (sources.detail != ForecastDetail::order)
    now.gap = now.forecast.step_time / now.forecast.lower_bound - 1;
  return now;
}

}  // namespace

CandidateCost cost_of(const Plan& candidate, const CandidateSources& sources,
                      const CandidateLimits& limits) {
  const Cluster& cluster = sources.cluster;
  const LayerCosts& costs = sources.known.of(candidate);
  const auto shape = sources.programs.of(candidate);
  const Schedule& schedule = shape->schedule();
  // One stage that no refining changes, and of which what whole rows hold and take is no bound.
  if (candidate.lengths.dynamic_cp > 0) {
    const ResolvedPlan resolved = derived(candidate, costs, *shape);
    return {.ranked = forecast_of(resolved, sources, limits.memory)};
  }
  const Bytes held = mean_held(candidate, *costs.part(), schedule.shape, cluster);
  const double factor = costs.costs().factors().memory;
  CandidateCost cost{Bytes(std::llround(static_cast<double>(held.count()) * factor)), {}};
  const bool hopeless = limits.memory && cost.held > *limits.memory;
  if (hopeless && !limits.even_if_it_cannot_fit) return cost;
  // Of several kinds of nodes each schedule's ranks have stages of their own, within their memory.
  const bool pools = cluster.kinds() > 1;
  const KeptTogether together(costs.model(), cluster.stack);
  std::optional<PartitionProblem> problem;
  Plan placed = candidate;
  if (pools) {
    problem = pool_problem(candidate, costs, cluster, schedule.shape);
    placed.boundaries = together.kept(pool_boundaries(*problem));
  }
  ResolvedPlan resolved = derived(placed, costs, *shape);
  const auto ranked = [&] { return forecast_of(resolved, sources, limits.memory); };
  // Far beyond what any descent of models of a hundred layers takes; those of thousands end there.
  constexpr std::int64_t kDescent = 300'000'000;
  // A descent is held to the memory only where it begins within it.
  const bool within = problem && slowest_ns(*problem, placed.boundaries);
  const auto refine = [&] {
    RefineLimits descent{.operations = kDescent, .over = limits.over};
    if (within || together.any()) {
      descent.allowed = [&](const std::vector<int>& boundaries) {
        return together.keeps(boundaries) &&
               (!within || slowest_ns(*problem, boundaries).has_value());
      };
    }
    return refine_boundaries(resolved, shape->compiled(resolved.lowering), costs, cluster, descent);
  };
  std::optional<Refined> refined;
  if (limits.step) {
    // A step with messages that share cards or slow compute down is no shorter than one without.
    refined = refine();
    cost.simulated = refined->evaluated;
    const Nanoseconds overhead = to_nanoseconds(costs.costs().anchored_step_overhead());
    if (refined->makespan && to_seconds(*refined->makespan + overhead) > *limits.step) {
      cost.too_slow = to_seconds(*refined->makespan + overhead);
      cost.even = std::move(placed.boundaries);
      cost.refined = std::move(refined->boundaries);
      return cost;
    }
  }
  Ranked best = ranked();
  // Refining costs many times a forecast. The even partition also evens out memory: where it does
  // not fit, the faster one hardly does, and where that fits less surely, the even one stands.
  if (best.forecast.may_fit()) {
    if (!refined) refined = refine();
    cost.simulated = refined->evaluated;
    if (refined->boundaries != placed.boundaries) {
      resolved = with_boundaries(std::move(resolved), std::move(refined->boundaries));
      Ranked faster = ranked();
      if (faster.forecast.fits() <= best.forecast.fits()) std::swap(best, faster);
      cost.other = std::move(faster);
    }
  }
  cost.ranked = std::move(best);
  return cost;
}

Ranked ranked_of(const Plan& plan, const CandidateSources& sources,
                 std::optional<Bytes> memory_limit) {
  const LayerCosts& costs = sources.known.of(plan);
  const auto shape = sources.programs.of(plan);
  const ResolvedPlan resolved = derived(plan, costs, *shape);
  Ranked now = forecast_of(resolved, sources, memory_limit);
  if (sources.software != nullptr)
    now.range = sources.software->of(resolved, shape->compiled(resolved.lowering));
  return now;
}

}  // namespace weir
