// Forecasts a plan by other software than the one that was taken.
// SPDX-License-Identifier: Apache-2.0
#include "sim/unnamed_software.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>
#include <vector>

#include "costmodel/memory/software_bounds.hpp"
#include "costmodel/memory/stage_memory.hpp"
#include "costmodel/table/builtin.hpp"
#include "sim/step_time.hpp"

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

std::optional<StepRange> step_range(const ResolvedPlan& resolved, const Cluster& cluster,
                                    std::span<const Stack> known) {
  const auto program = compile(resolved.program);
  const auto* compiled = std::get_if<CompiledProgram>(&program);
  std::optional<StepRange> range;
  for (const Stack& stack : known) {
    const Cluster its = run_by(cluster, stack);
    const Costs costs = costs_by(resolved.plan, resolved.model, its);
    widen(range, step_time(resolved, compiled, LayerCosts(resolved, costs, its.stack), its));
  }
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

void set_interval(Forecast& forecast, const StepRange& range,
                  const std::optional<RangeMargins>& margins) {
  if (!margins) return;
  // docs/theory.md 9.5: from f e^-a to s e^c.
  forecast.interval = StepInterval{range.fastest * std::exp(-margins->below),
                                   range.slowest * std::exp(margins->above), margins->nominal};
  forecast.interval_source = IntervalSource{margins->rows, margins->clusters, margins->stacks};
}

}  // namespace weir
