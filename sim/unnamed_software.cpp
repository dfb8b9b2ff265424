// Forecasts a plan by other software than the one that was taken.
// SPDX-License-Identifier: Apache-2.0
#include "sim/unnamed_software.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "costmodel/memory/software_bounds.hpp"
#include "costmodel/memory/stage_memory.hpp"
#include "costmodel/table/builtin.hpp"
#include "sim/step_time.hpp"

namespace weir {
namespace {

Costs costs_by(const ResolvedPlan& resolved, const Cluster& cluster) {
  const Plan& plan = resolved.plan;
  return builtin_costs(resolved.model, plan.seq_length, plan.dtype, cluster, {plan.split()});
}

std::vector<RankMemory> memory_by(const Stack& stack, const ResolvedPlan& resolved,
                                  Cluster cluster) {
  set_stack(cluster, stack);
  return forecast(resolved, costs_by(resolved, cluster), cluster, {.detail = ForecastDetail::order})
      .forecast.memory;
}

Seconds step_by(const Stack& stack, const ResolvedPlan& resolved, Cluster cluster) {
  set_stack(cluster, stack);
  return step_time(resolved, costs_by(resolved, cluster), cluster);
}

}  // namespace

std::optional<StepRange> step_range(const ResolvedPlan& resolved, const Cluster& cluster,
                                    std::span<const Stack> known) {
  std::optional<StepRange> range;
  for (Stack stack : known) {
    // What the job says: its products' format, and that stages may be empty.
    stack.fp8 = cluster.stack.fp8;
    stack.empty_stages = true;
    const Seconds step = step_by(stack, resolved, cluster);
    if (!range) range = StepRange{step, step};
    range = StepRange{std::min(range->fastest, step), std::max(range->slowest, step)};
  }
  return range;
}

void bound_least(Forecast& forecast, const ResolvedPlan& resolved, const Cluster& cluster) {
  const std::vector<RankMemory> least =
      memory_by(leanest(cluster.stack, resolved.plan), resolved, cluster);
  // A bound from below is never above what is expected.
  forecast.leanest.clear();
  for (std::size_t r = 0; r < forecast.memory.size(); ++r)
    forecast.leanest.push_back(std::min(forecast.memory[r].peak, least[r].peak));
}

void bound_memory(Forecast& forecast, const ResolvedPlan& resolved, const Cluster& cluster) {
  bound_least(forecast, resolved, cluster);
  const std::vector<RankMemory> most =
      memory_by(amplest(cluster.stack, resolved.plan), resolved, cluster);
  for (std::size_t r = 0; r < forecast.memory.size(); ++r)
    forecast.memory[r].upper = std::max(forecast.memory[r].upper, most[r].upper);
}

void bound_by_state(Forecast& forecast, const ResolvedPlan& resolved, const Cluster& cluster) {
  Cluster lean = cluster;
  lean.stack = leanest(cluster.stack, resolved.plan);
  const std::vector<Bytes> held =
      held_between_steps(resolved.plan, *resolved.part, resolved.schedule.shape, lean);
  forecast.leanest.clear();
  for (std::size_t r = 0; r < forecast.memory.size(); ++r)
    forecast.leanest.push_back(std::min(forecast.memory[r].peak, held[r]));
}

void set_interval(Forecast& forecast, const StepRange& range,
                  const std::optional<RangeMargins>& margins) {
  if (!margins) return;
  // docs/theory.md 9.5: from f e^-a to s e^c.
  forecast.interval = StepInterval{range.fastest * std::exp(-margins->below),
                                   range.slowest * std::exp(margins->above), margins->nominal};
  forecast.interval_source = IntervalSource{margins->rows, margins->clusters, margins->stacks};
}

}  // namespace weir
