// One forecast from end to end: costs, virtual time, accounts, interval, memory and rates.
// SPDX-License-Identifier: Apache-2.0
#include "sim/forecast.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "costmodel/fit/builtin_interval.hpp"
#include "costmodel/fit/intervals.hpp"
#include "costmodel/layers/kernels.hpp"
#include "costmodel/layers/layer_math.hpp"
#include "costmodel/layers/row_work.hpp"
#include "costmodel/memory/host_memory.hpp"
#include "costmodel/memory/memory_rules.hpp"
#include "costmodel/table/device_kind.hpp"
#include "costmodel/table/plan_costs.hpp"
#include "plan/job/placement.hpp"
#include "plan/program/deadlock.hpp"
#include "plan/program/repeat.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/words/error.hpp"
#include "sim/bounds.hpp"
#include "sim/engine/event_engine.hpp"
#include "sim/forecast_memory.hpp"
#include "sim/forecast_notes.hpp"

namespace weir {
namespace {

// What runs, what its operations take, and what they share.
struct PricedProgram {
  const Program& program;
  CostTableResult priced;
  OperationCosts costs;
  Contention contention;
};

// FLOP/s of a device of the plan, on average. A rank that stands on several kinds counts as the
// first of them.
double mean_peak_rate(const Plan& plan, const Cluster& cluster) {
  if (cluster.kinds() == 1) return peak_rate(cluster.device, plan.dtype).count();
  const Placement placement(plan, cluster);
  double sum = 0;
  for (std::int32_t rank = 0; rank < plan.pp; ++rank) {
    const Cluster& nodes = cluster.kind(placement.kinds(Rank{rank}).front());
    sum += peak_rate(nodes.device, plan.dtype).count();
  }
  return sum / plan.pp;
}

// Of a row, that of its sequences: linear in tokens but for attention, whose part is known from a
// row twice as long: f(S) = a S + c S^2, c S^2 = (f(2 S) - 2 f(S)) / 2.
double useful_flops(const Model& as_divided, const Plan& plan, const RowWork& row) {
  // Of the shards of a vocabulary the model has one.
  Model undivided;
  if (divides_vocabulary(plan.schedule)) {
    undivided = as_divided;
    set_vocabulary(undivided, 1);
  }
  const Model& model = undivided.layers.empty() ? as_divided : undivided;
  const double whole = training_flops(model, plan.seq_length).count();
  if (!plan.lengths.known()) return whole;
  const double twice = training_flops(model, 2 * plan.seq_length).count();
  const double squares = std::max(0.0, (twice - 2 * whole) / 2);
  return (whole - squares) * row.useful + squares * row.useful_squared;
}

void add_rates(Forecast& forecast, const ResolvedPlan& loaded, const Cluster& cluster) {
  const Plan& plan = loaded.plan;
  const double step = forecast.step_time.count();
  if (step <= 0) return;
  forecast.samples_per_s = static_cast<double>(plan.global_batch_size()) / step;
  if (plan.seq_length == 0) return;
  // Padding counts neither as tokens nor as the model's work.
  const RowWork row = mean_row(plan.lengths, plan.seq_length, plan.micro_batch_size);
  forecast.tokens_per_s =
      *forecast.samples_per_s * static_cast<double>(plan.seq_length) * row.useful;
  const double flops =
      useful_flops(loaded.model, plan, row) * *forecast.samples_per_s / plan.devices();
  if (flops <= 0) return;
  forecast.model_tflops_per_device = flops / 1e12;
  const double peak = mean_peak_rate(plan, cluster);
  if (peak > 0) forecast.mfu = flops / peak;
}

// Of an hour of all of a plan's devices, so many where all are of one kind; none where one of them
// has no price.
std::optional<Price> price_per_hour(const Plan& plan, const Cluster& cluster, int of_one_kind) {
  if (cluster.kinds() == 1) {
    const auto& price = cluster.kind(0).price_per_gpu_hour;
    return price ? std::optional(*price * of_one_kind) : std::nullopt;
  }
  const Placement placement(plan, cluster);
  std::optional<Price> sum;
  for (int kind = 0; kind < cluster.kinds(); ++kind) {
    const auto devices = static_cast<double>(placement.devices(kind));
    const auto& price = cluster.kind(kind).price_per_gpu_hour;
    if (devices == 0) continue;
    if (!price) return std::nullopt;
    if (!sum) sum = Price{0, price->currency};
    sum->amount += price->amount * devices;
  }
  return sum;
}

Program blocking(const ResolvedPlan& loaded, TransferMode transfers) {
  // Between two actions a rank posts one send and one receive: there is no order for more.
  if (!loaded.lowering.skips.empty()) {
    throw InputError(
        "plan", "skips",
        fmt::format("direct: expected buffered transfers, not {}", to_string(transfers)));
  }
  // Its authors' order of transfers around shards' passes is not known here.
  if (loaded.schedule.shape.shards() > 0) {
    throw InputError("plan", "schedule",
                     fmt::format("{} divides the vocabulary: expected buffered transfers, not {}",
                                 loaded.schedule.name, to_string(transfers)));
  }
  LoweringOptions unlimited = loaded.lowering;
  unlimited.slots = 0;
  Program program = block_transfers(lower(loaded.schedule, unlimited), transfers);
  if (find_cycle(program)) {
    throw NoFeasiblePlan(fmt::format("deadlocks with {} transfers:\n{}", to_string(transfers),
                                     describe_deadlock(program)));
  }
  return program;
}

// Of steps that follow each other without a barrier, from the makespans of 8 and of 16.
Seconds mean_step(const PricedProgram& run) {
  constexpr int kSteps = 8;
  const auto makespan = [&](int steps) {
    const Program repeated = repeat(run.program, steps);
    const auto timed = simulate(repeated, expand(repeated, run.priced.table), run.contention);
    return to_seconds(std::get<Timing>(timed).makespan);
  };
  // The first 8 steps hold the fill and the drain, which are the same in 16: the difference is 8
  // steady steps.
  return (makespan(2 * kSteps) - makespan(kSteps)) / kSteps;
}

StepInterval around(Seconds centre, double half_width, double nominal) {
  return {centre * std::exp(-half_width), centre * std::exp(half_width), nominal};
}

// From the errors of such forecasts on other clusters and stacks. They were all GPUs whose kernels
// are known: of another device they say nothing.
std::optional<BuiltinInterval> interval_elsewhere(const Plan& plan, const Costs& costs,
                                                  const Cluster& cluster) {
  const std::string &name = cluster.name, &stack = cluster.stack.name;
  if (costs.anchor) {
    const LayoutWords words = layout_words(plan, plan.model_sha256);
    return interval_beside(
        nearest(costs.anchor->runs, words), name, stack,
        costs.anchor->stack_named ? SoftwareKnown::named : SoftwareKnown::by_default);
  }
  return builtin_interval(name, stack, BuiltinQuantity::step);
}

void add_builtin_interval(Forecast& f, const Plan& plan, const Costs& costs,
                          const Cluster& cluster) {
  if (!cluster.device.kernels) return;
  const auto interval = interval_elsewhere(plan, costs, cluster);
  if (!interval) return;
  // Runs elsewhere say how far it may be off, and to which side.
  f.interval =
      around(f.step_time * std::exp(interval->centre), interval->half_width, interval->nominal);
  f.interval_source = IntervalSource{interval->rows, interval->clusters, interval->stacks};
  if (cluster.kinds() > 1)
    f.warnings.emplace_back("the interval is of runs on clusters of one kind of nodes each");
}

// Measured times hold for as many ranks as the machine has devices; an interval only where plans
// like this one set it.
void add_basis(Forecast& f, const Plan& plan, const Costs& costs, const Cluster& cluster,
               bool inside_sizes) {
  // Built-in costs were measured on no machine, so no plan of theirs has too many devices for it.
  f.basis = costs.basis;
  if (stands_on_builtin(costs.basis)) return add_builtin_interval(f, plan, costs, cluster);
  if (plan.devices() > cluster.devices()) {
    f.basis = Basis::oversubscribed;
    f.warnings.push_back(
        fmt::format("{} devices needed, {} there: ranks share them evenly, and the result compares "
                    "with nothing",
                    plan.devices(), cluster.devices()));
    return;
  }
  if (plan.replicas() > 1) f.warnings.push_back("dp and cp: what replicas send was not measured");
  if (!costs.interval || plan.replicas() > 1) return;
  if (!cluster.stragglers.empty()) {
    f.warnings.emplace_back("no interval: no run with these stragglers set one");
    return;
  }
  // Nothing is promised outside the range of plans that set the interval.
  const auto why = costs.range ? outside(*costs.range, plan) : std::nullopt;
  if (why) f.warnings.push_back("no interval: " + *why);
  if (why || !inside_sizes) return;
  const double h = half_width(*costs.interval, f.jitter_spread);
  f.interval = around(f.step_time, h, costs.interval->nominal);
}

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

Timing timed_step(const PricedProgram& run) {
  auto outcome = simulate(run.program, run.costs, run.contention);
  // Programs were shown to have no cycle (docs/design.md 6), so one that is stuck is a bug.
  if (const auto* stuck = std::get_if<Stuck>(&outcome)) throw std::logic_error(stuck->report);
  return std::get<Timing>(std::move(outcome));
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

}  // namespace

Contention contention_of(const Program& program, const Plan& plan, const Costs& costs,
                         const Cluster& cluster) {
  Contention contention =
      cluster.kinds() > 1
          ? shared_node_links(program, cluster, Placement(plan, cluster), plan.tp * plan.cp)
          : shared_node_links(program, cluster, plan.tp * plan.cp);
  contention.compute_slowdown = costs.overlap.compute;
  contention.transfer_slowdown = costs.overlap.transfer;
  if (stands_on_builtin(costs.basis) || plan.devices() <= cluster.devices()) return contention;
  // A rank is `each` devices, of which there are so many whole sets; what is left over speeds them
  // up, and where there is less than one set it is the slower.
  const int each = plan.devices() / plan.pp;
  const int sets = std::max(1, cluster.devices() / each);
  contention.device_speed = static_cast<double>(cluster.devices()) / each / sets;
  // Neighbouring ranks share a set, and all sets have as many ranks, give or take one.
  for (int rank = 0; rank < plan.pp; ++rank)
    contention.device_of_rank.push_back(
        static_cast<std::int32_t>(std::int64_t{rank} * sets / plan.pp));
  return contention;
}

namespace {

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
  if (options.transfers != TransferMode::buffered) blocked = blocking(loaded, options.transfers);
  const Program& program = blocked ? *blocked : loaded.program;
  const Costs& costs = known.costs();
  PricedProgram run{program, cost_table(loaded, known, cluster), {}, {}};
  run.costs = expand(program, run.priced.table);
  run.contention = contention_of(program, loaded.plan, costs, cluster);
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
