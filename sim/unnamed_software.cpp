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

}  // namespace

std::vector<StepBy> steps_by(const ResolvedPlan& resolved, const Cluster& cluster,
                             std::span<const Stack> known) {
  const StepTimes times(resolved);
  std::vector<StepBy> steps;
  for (Stack stack : known) {
    // What the job says: its products' format, and that stages may be empty.
    stack.fp8 = cluster.stack.fp8;
    stack.empty_stages = true;
    Cluster its = cluster;
    set_stack(its, stack);
    steps.push_back({stack.name, times.by(costs_by(resolved, its), its)});
  }
  return steps;
}

std::optional<StepRange> step_range(const ResolvedPlan& resolved, const Cluster& cluster,
                                    std::span<const Stack> known) {
  const std::vector<StepBy> steps = steps_by(resolved, cluster, known);
  if (steps.empty()) return std::nullopt;
  const auto [fastest, slowest] = std::ranges::minmax_element(steps, {}, &StepBy::step);
  return StepRange{fastest->step, slowest->step};
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

StepScales scales_beside(Seconds step, const StepRange& range) {
  // What the job says moves a forecast and not the range, which may then begin or end beside it.
  const auto from_to = [](Seconds from, Seconds to) { return std::max(0.0, std::log(to / from)); };
  return {unnamed_scale(from_to(range.fastest, step)), unnamed_scale(from_to(step, range.slowest))};
}

void set_interval(Forecast& forecast, const StepRange& range,
                  const std::optional<BuiltinInterval>& errors) {
  if (!errors) return;
  // docs/theory.md 9.5: q scales to either side.
  const Seconds step = forecast.step_time;
  const auto [below, above] = scales_beside(step, range);
  forecast.interval = StepInterval{step * std::exp(-errors->half_width * below),
                                   step * std::exp(errors->half_width * above), errors->nominal};
  forecast.interval_source = IntervalSource{errors->rows, errors->clusters, errors->stacks};
}

}  // namespace weir
