// Forecasts a plan by other software than the one that was taken.
// SPDX-License-Identifier: Apache-2.0
#include "sim/forecast/unnamed_software.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>
#include <vector>

#include "costmodel/memory/software_bounds.hpp"
#include "costmodel/memory/stage_memory.hpp"
#include "costmodel/table/builtin.hpp"
#include "sim/forecast/step_time.hpp"

namespace weir {
namespace {

Cluster run_by(Cluster cluster, Stack stack) {
  // What the job says: its products' format, and that stages may be empty.
  stack.fp8 = cluster.stack.fp8;
  stack.empty_stages = true;
  set_stack(cluster, stack);
  return cluster;
}

Costs costs_by(const Plan& plan, const Model& model, const Cluster& cluster) {
  return builtin_costs(model, plan.seq_length, plan.dtype, cluster, {plan.split()});
}

void widen(std::optional<StepRange>& range, Seconds step) {
  if (!range) range = StepRange{step, step};
  range = StepRange{std::min(range->fastest, step), std::max(range->slowest, step)};
}

}  // namespace

std::vector<StepBy> steps_by(const ResolvedPlan& resolved, const Cluster& cluster,
                             std::span<const Stack> known) {
  const auto program = compile(resolved.program);
  const auto* compiled = std::get_if<CompiledProgram>(&program);
  std::vector<StepBy> steps;
  for (const Stack& stack : known) {
    const Cluster its = run_by(cluster, stack);
    const Costs costs = costs_by(resolved.plan, resolved.model, its);
    const LayerCosts layers(resolved, costs, its.stack);
    steps.push_back({stack.name, step_time(resolved, compiled, layers, its)});
  }
  return steps;
}

std::optional<StepRange> step_range(const ResolvedPlan& resolved, const Cluster& cluster,
                                    std::span<const Stack> known) {
  std::optional<StepRange> range;
  for (const StepBy& by : steps_by(resolved, cluster, known)) widen(range, by.step);
  return range;
}

SoftwareSteps::SoftwareSteps(const Model& model, const Cluster& cluster,
                             std::span<const Stack> known)
    : model_(model) {
  for (const Stack& stack : known) clusters_.push_back(run_by(cluster, stack));
}

std::optional<StepRange> SoftwareSteps::of(const ResolvedPlan& resolved,
                                           const CompiledProgram* compiled) {
  std::optional<StepRange> range;
  for (std::size_t i = 0; i < clusters_.size(); ++i)
    widen(range, step_time(resolved, compiled, layers_of(resolved.plan, i), clusters_[i]));
  return range;
}

const LayerCosts& SoftwareSteps::layers_of(const Plan& plan, std::size_t software) {
  Priced* priced = nullptr;
  {
    const std::scoped_lock lock(mutex_);  // guards priced_, which all threads share
    priced = &priced_[{software, plan.split()}];
  }
  // Threads that want one split wait for the first of them to price it.
  std::call_once(priced->once, [&] {
    const Cluster& its = clusters_[software];
    priced->costs = costs_by(plan, model_, its);
    priced->layers.emplace(plan, model_, *priced->costs, its.stack);
  });
  return *priced->layers;
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
