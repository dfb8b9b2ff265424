// One forecast from end to end: costs, virtual time, accounts, interval, memory and rates.
// SPDX-License-Identifier: Apache-2.0
#include "sim/forecast/forecast.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "costmodel/layers/kernels.hpp"
#include "costmodel/memory/host_memory.hpp"
#include "costmodel/memory/memory_rules.hpp"
#include "costmodel/table/device_kind.hpp"
#include "costmodel/table/plan_costs.hpp"
#include "sim/bounds.hpp"
#include "sim/forecast/forecast_interval.hpp"
#include "sim/forecast/forecast_memory.hpp"
#include "sim/forecast/forecast_notes.hpp"
#include "sim/forecast/forecast_rates.hpp"
#include "sim/forecast/priced_program.hpp"

namespace weir {
namespace {

StepDistribution distribution_of(const PricedProgram& run, const Costs& costs,
                                 const JitterRequest& request) {
  StepDistribution d =
      step_distribution(run.program, run.costs, run.contention, costs.jitter, request);
  for (Seconds* time : {&d.mean, &d.low, &d.median, &d.high})
    *time += costs.anchored_step_overhead();
  return d;
}

// What the interval needs; the same for everybody who asks for this plan. A ranking without
// intervals goes without.
double jitter_spread(const PricedProgram& run, const Costs& costs, ForecastDetail detail) {
  constexpr JitterRequest kEnough{.samples = 100, .seed = 1};
  const bool wanted =
      costs.basis == Basis::calibrated && (costs.interval || detail == ForecastDetail::full);
  if (!wanted || costs.jitter == Jitter{}) return 0;
  return distribution_of(run, costs, kEnough).spread_of_median;
}

void scale(Counter& counter, double factor) {
  if (counter.unit != CounterUnit::bytes) return;
  for (auto& sample : counter.samples)
    sample.value = std::llround(static_cast<double>(sample.value) * factor);
}

Trace trace_of(const PricedProgram& run, const Timing& timing, Nanoseconds overhead) {
  Trace trace = to_trace(run.program, timing, run.costs);
  trace.steps.front().end += overhead;
  return trace;
}

void add_distribution(Forecast& f, const PricedProgram& run, const Costs& costs,
                      const JitterRequest& request) {
  if (costs.jitter != Jitter{}) {
    f.distribution = distribution_of(run, costs, request);
    return;
  }
  f.warnings.emplace_back(
      "no distribution: these costs do not say how durations scatter; weir calibrate measures it");
}

// By rank, how many of its blocks predict further tokens, for whoever draws the trace.
std::string predictions(const ResolvedPlan& loaded) {
  const ScheduleShape& shape = loaded.schedule.shape;
  std::vector<int> of_rank(static_cast<std::size_t>(shape.ranks), 0);
  // Copies of stages among them: they stand on other ranks.
  for (std::int32_t s = 0; s < shape.total_stages(); ++s) {
    const LayerRange layers = loaded.stage(Stage{s}).layers;
    for (int l = layers.first; l < layers.last; ++l) {
      const Layer& layer = loaded.model.layers[static_cast<std::size_t>(l)];
      const auto* block = std::get_if<TransformerShape>(&layer.shape);
      if (block != nullptr && predicts(*block)) ++of_rank[shape.rank_of(Stage{s}).position()];
    }
  }
  return fmt::format("{}", fmt::join(of_rank, ","));
}

// What a trace says of where its times come from.
std::map<std::string, std::string> info_of(const ResolvedPlan& loaded, const Costs& costs) {
  std::map<std::string, std::string> info{{"plan", to_json(loaded.plan)},
                                          {"machine", costs.machine},
                                          {"basis", to_string(costs.basis)}};
  if (loaded.plan.prediction_layers > 0) info["predicts"] = predictions(loaded);
  return info;
}

}  // namespace

ForecastResult forecast(const ResolvedPlan& loaded, const Costs& costs, const Cluster& cluster,
                        const ForecastOptions& options) {
  return forecast(loaded, LayerCosts(loaded, costs, cluster.stack), cluster, options);
}

ForecastResult forecast(const ResolvedPlan& loaded, const LayerCosts& known, const Cluster& cluster,
                        const ForecastOptions& options) {
  std::optional<Program> blocked;
  if (options.transfers != TransferMode::buffered)
    blocked = blocking_program(loaded, options.transfers);
  const Program& program = blocked ? *blocked : loaded.program;
  const Costs& costs = known.costs();
  const PricedProgram run(loaded, program, known, cluster);
  const Nanoseconds overhead = to_nanoseconds(costs.anchored_step_overhead());
  const Timing timing = timed_step(run);
  ForecastResult result;
  Forecast& f = result.forecast;
  f.step_time = to_seconds(timing.makespan + overhead);
  f.stack = cluster.stack.name;
  f.devices = loaded.plan.devices();
  if (!run.contention.device_of_rank.empty())
    f.shared_devices = std::min(f.devices, cluster.devices());
  // Without a cluster's file the costs alone know that they were measured on a GPU.
  f.device_kind = costs.backend == "cuda" ? DeviceKind::gpu : kind_of(cluster.device);
  f.warnings = run.priced.warnings;
  warn_of_empty_stages(loaded, f);
  // What a device holds at most is of one sequence where each has its own devices.
  const std::optional<HeldSequence> fullest = fullest_sequence(loaded, cluster.stack);
  const ResolvedPlan& held = fullest ? fullest->plan : loaded;
  const ModelPart& held_part = fullest ? *fullest->part : *known.part();
  f.host = fullest_host(held, held_part, cluster);
  if (f.host) say_of_host(*f.host, f);
  say_of_experts(loaded.plan, cluster, f);
  say_of_positions(loaded, f);
  say_of_lengths(loaded, run.priced.table, f);
  warn_of_direct_skips(loaded, f);
  // A search's inner loop reads time and memory only.
  if (options.detail != ForecastDetail::order) {
    result.trace = trace_of(run, timing, overhead);
    f.metrics = step_metrics(program, result.trace);
    // Blocking transfers only add waits, so the bound without them holds.
    f.lower_bound = to_seconds(step_lower_bound(loaded.program, run.costs) + overhead);
    f.jitter_spread = jitter_spread(run, costs, options.detail);
    f.peak_in_flight = peak_in_flight(loaded.schedule);
    f.price_per_hour = price_per_hour(loaded.plan, cluster, f.shared_devices.value_or(f.devices));
    add_basis(f, loaded.plan, costs, cluster, run.priced.inside_range);
  }
  if (options.jitter) add_distribution(f, run, costs, *options.jitter);
  if (options.without_barrier) f.without_barrier = mean_step(run);
  // One step's, of which several stacks may say what it holds.
  const MemoryEvents events(program, timing.start_ns, timing.end_ns);
  const auto rules_by = [&](const Cluster& of, const ModelPart& part) {
    MemoryRules rules = memory_rules(held.plan, of, part);
    rules.device_over_host = run.priced.device_over_host;
    return rules;
  };
  const auto peaks = [&](const MemoryRules& rules) {
    return memory_peaks(held, program, events, run.priced.scratch, rules);
  };
  const MemoryRules rules = rules_by(cluster, held_part);
  add_memory(f, held, costs, cluster, peaks(rules));
  const bool asked = !options.only_if_within || surely_within(f, *options.only_if_within);
  if (cluster.device.kernels && asked) {
    const auto made =
        options.software ? SoftwareParts{} : software_parts(held, costs, cluster.stack);
    add_software_bounds(f, held, options.software ? *options.software : made, cluster.stack,
                        !options.only_if_within, [&](const Stack& stack, const ModelPart& part) {
                          Cluster its = cluster;
                          set_stack(its, stack);
                          return peaks(rules_by(its, part));
                        });
  }
  add_rates(f, loaded, cluster);
  if (options.detail == ForecastDetail::full) {
    result.trace.counters =
        memory_counters(held, program, result.trace.of_step(0), run.priced.scratch, rules);
    for (Counter& counter : result.trace.counters) scale(counter, costs.factors().memory);
    result.trace.info = info_of(loaded, costs);
  }
  return result;
}

}  // namespace weir
