// Scales one cause after the other until the simulated step is the measured one.
// SPDX-License-Identifier: Apache-2.0
#include "sim/explain/gap.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>
#include <variant>

#include "costmodel/table/layer_costs.hpp"
#include "costmodel/table/plan_costs.hpp"
#include "sim/engine/event_engine.hpp"
#include "sim/forecast/priced_program.hpp"

namespace weir {
namespace {

using Parts = PerCause<Nanoseconds>;

Nanoseconds times(Nanoseconds time, double factor) {
  return to_nanoseconds(to_seconds(time) * factor);
}

// What a cause adds to a stage where it is off by `factor`: so much more of one of its parts.
void lengthen(CostTable& table, const CostBreakdown& costs, std::size_t stage,
              Nanoseconds Parts::*part, double factor) {
  for (const ActionKind kind : kPassKinds) {
    const Nanoseconds its = costs.stages[stage][kind].*part;
    table.stages[stage][kind] += times(its, factor) - its;
  }
}

// All that goes to the host and is done there takes `factor` times as long.
void slow_host(Cluster& nodes, double factor) {
  constexpr double kLeast = 1e-9;  // in its place 0, by which nothing is divided
  const double by = std::max(factor, kLeast);
  Host& host = nodes.host.value();
  host.link.latency = host.link.latency * by;
  host.link.bandwidth = host.link.bandwidth * (1 / by);
  for (LinkRegime& regime : host.link.regimes)
    regime = {regime.up_to, regime.latency * by, regime.bandwidth * (1 / by)};
  host.bandwidth = host.bandwidth * (1 / by);
}

struct Cause {
  std::string_view name;
  std::string measurement;
  std::function<CostTable(double factor)> table;
  std::function<Seconds(const CostTable& table)> reading;
};

class Suspects {
 public:
  Suspects(const ResolvedPlan& resolved, const CostBreakdown& costs, const Costs& known,
           const Cluster& cluster)
      : resolved_(resolved),
        costs_(costs),
        known_(resolved, known, cluster.stack),
        cluster_(cluster),
        slowest_(slowest_stage()) {}

  std::vector<Cause> all() {
    add("kernels",
        fmt::format("profile stage {} alone, on one device (a run of its layers with K = 1): its "
                    "F of a micro-batch",
                    slowest_),
        part(&Parts::work), forward(slowest_));
    add_slow_rank();
    add_rematerialised();
    const Plan& plan = resolved_.plan;
    if (plan.tp > 1)
      add("tensor",
          fmt::format("nccl-tests {} of {} devices at a message of the stage's: its share of an F "
                      "of stage {}",
                      plan.sequence_parallel ? "all_gather_perf and reduce_scatter_perf"
                                             : "all_reduce_perf",
                      plan.tp, slowest_),
          part(&Parts::tensor), share(&Parts::tensor));
    if (plan.cp > 1)
      add("context",
          fmt::format("nccl-tests all_gather_perf of {} devices: its share of an F of stage {}",
                      plan.cp, slowest_),
          part(&Parts::context), share(&Parts::context));
    if (plan.ep > 1)
      add("experts",
          fmt::format("nccl-tests alltoall_perf of {} devices: its share of an F of stage {}",
                      plan.ep, slowest_),
          part(&Parts::experts), share(&Parts::experts));
    add_replicas();
    add_messages();
    add_host();
    add_offload();
    add(
        "update", "the update alone, from the last gradient to the step's end",
        [this](double factor) {
          CostTable table = costs_.table;
          for (std::size_t s = 0; s < table.stages.size(); ++s) {
            // Without the weights that are gathered after it: those are the cause "replicas".
            const Nanoseconds own = costs_.stages[s].optimizer.work;
            table.stages[s].optimizer += times(own, factor) - own;
          }
          return table;
        },
        [this](const CostTable& table) { return to_seconds(table.stages[slowest_].optimizer); });
    return std::move(causes_);
  }

 private:
  using Table = std::function<CostTable(double)>;
  using Reading = std::function<Seconds(const CostTable&)>;

  void add(std::string_view name, std::string measurement, Table table, Reading reading) {
    causes_.push_back({name, std::move(measurement), std::move(table), std::move(reading)});
  }

  [[nodiscard]] std::size_t slowest_stage() const {
    const auto work = [](const StageCost& cost) { return cost.f + cost.b; };
    const auto& stages = costs_.table.stages;
    return static_cast<std::size_t>(std::ranges::max_element(stages, {}, work) - stages.begin());
  }

  // One part of all passes of all stages.
  [[nodiscard]] Table part(Nanoseconds Parts::*part) const {
    return [this, part](double factor) {
      CostTable table = costs_.table;
      for (std::size_t s = 0; s < table.stages.size(); ++s)
        lengthen(table, costs_, s, part, factor);
      return table;
    };
  }
  [[nodiscard]] static Reading forward(std::size_t stage) {
    return [stage](const CostTable& table) { return to_seconds(table.stages[stage].f); };
  }
  // What a part takes of the slowest stage's F; what of that is other parts stays.
  [[nodiscard]] Reading share(Nanoseconds Parts::*part) const {
    const Nanoseconds others = costs_.table.stages[slowest_].f - costs_.stages[slowest_].f.*part;
    return [this, others](const CostTable& table) {
      return to_seconds(table.stages[slowest_].f - others);
    };
  }

  void add_slow_rank() {
    const ScheduleShape& shape = resolved_.schedule.shape;
    if (shape.ranks == 1) return;
    const Rank rank = shape.rank_of(Stage{static_cast<std::int32_t>(slowest_)});
    add(
        "slow_rank",
        fmt::format("the busy time of each rank in one traced step: rank {} against the others, by "
                    "its F of a micro-batch",
                    rank.value),
        [this, rank](double factor) {
          CostTable table = costs_.table;
          for (std::int32_t s = 0; s < resolved_.schedule.shape.total_stages(); ++s) {
            if (resolved_.schedule.shape.rank_of(Stage{s}) == rank)
              lengthen(table, costs_, static_cast<std::size_t>(s), &Parts::work, factor);
          }
          return table;
        },
        forward(slowest_));
  }

  void add_rematerialised() {
    const RecomputeMode mode = resolved_.plan.recompute.mode;
    if (mode == RecomputeMode::none) return;
    const bool apart = mode == RecomputeMode::stage;
    add(
        "rematerialised",
        fmt::format("the backward of stage {} with and without re-materialisation, K = 1: their "
                    "difference of a micro-batch",
                    slowest_),
        [this](double factor) {
          CostTable table = part(&Parts::rematerialised)(factor);
          // What a spared micro-batch saves is longer too.
          for (StageCost& stage : table.stages) stage.rebuild = times(stage.rebuild, factor);
          return table;
        },
        [this, apart](const CostTable& table) {
          const StageCost& now = table.stages[slowest_];
          // An R is an action of its own. Else rebuilding is a part of B, and what B became longer
          // by is its.
          if (apart) return to_seconds(now.r);
          const StageCost& before = costs_.table.stages[slowest_];
          return to_seconds(now.b - before.b + costs_.stages[slowest_].b.rematerialised);
        });
  }

  // Of replicas, and of stages with tied weights.
  void add_replicas() {
    const bool reduces = std::ranges::any_of(
        costs_.table.stages, [](const StageCost& stage) { return stage.reduce.count() > 0; });
    const int replicas = resolved_.plan.replicas();
    if (replicas == 1 && !reduces) return;
    add(
        "replicas",
        fmt::format("nccl-tests {} of {} devices at the gradients' size: the reduction of stage {}",
                    resolved_.plan.zero > 0 ? "reduce_scatter_perf" : "all_reduce_perf",
                    std::max(replicas, 2), slowest_),
        [this](double factor) {
          CostTable table = part(&Parts::replicas)(factor);
          for (std::size_t s = 0; s < table.stages.size(); ++s) {
            // The weights that are gathered with the update, and the reduction, which is messages
            // only.
            StageCost& stage = table.stages[s];
            const Nanoseconds gather = costs_.stages[s].optimizer.replicas;
            stage.optimizer += times(gather, factor) - gather;
            stage.reduce = times(stage.reduce, factor);
          }
          return table;
        },
        [this](const CostTable& table) { return to_seconds(table.stages[slowest_].reduce); });
  }

  void add_messages() {
    if (resolved_.schedule.shape.ranks == 1) return;
    add(
        "messages", "nccl-tests sendrecv_perf between two stages at a message's size: the slowest",
        [this](double factor) {
          CostTable table = part(&Parts::messages)(factor);
          for (auto* messages : {&table.forward_messages, &table.backward_messages}) {
            for (MessageCost& message : *messages)
              message = {times(message.occupancy, factor), times(message.latency, factor)};
          }
          for (SkipCost& skip : table.skips) {
            for (MessageCost* message : {&skip.forward, &skip.backward})
              *message = {times(message->occupancy, factor), times(message->latency, factor)};
          }
          return table;
        },
        [this](const CostTable& table) {
          Nanoseconds longest{0};
          for (std::size_t s = 0; s < table.stages.size(); ++s) {
            const MessageCost& message = table.forward_messages[s];
            // Where sends keep a stage, they are a part of its F.
            const Nanoseconds kept =
                costs_.stages[s].f.messages == Nanoseconds(0)
                    ? Nanoseconds(0)
                    : table.stages[s].f - costs_.table.stages[s].f + costs_.stages[s].f.messages;
            longest = std::max(longest, message.occupancy + message.latency + kept);
          }
          return to_seconds(longest);
        });
  }

  void add_host() {
    add(
        "host", "a run with K = 1, with its launches recorded: gaps between an action's kernels",
        [this](double factor) {
          CostTable table = costs_.table;
          // Without copies to the host's memory, which no launch makes longer.
          for (std::size_t s = 0; s < table.stages.size(); ++s) {
            for (const ActionKind kind : kPassKinds) {
              const Nanoseconds its = costs_.stages[s][kind].host - costs_.offloaded[s][kind];
              table.stages[s][kind] += times(its, factor) - its;
            }
          }
          table.host_overhead = times(table.host_overhead, factor);
          return table;
        },
        [this](const CostTable& table) {
          // This table differs from the known one in the host's part alone, so the difference of F
          // is its.
          const Nanoseconds calls = table.stages[slowest_].f - costs_.table.stages[slowest_].f +
                                    costs_.stages[slowest_].f.host - costs_.offloaded[slowest_].f;
          return to_seconds(table.host_overhead + calls);
        });
  }

  // The link to the host's memory, and that memory for its own update: priced anew, since a copy is
  // waited for only as far as what runs beside it does not hide it.
  void add_offload() {
    const Plan& plan = resolved_.plan;
    if (plan.offload_optimizer == 0 && plan.offload_activations == 0) return;
    const bool passes = plan.offload_activations > 0;
    add(
        "offload",
        fmt::format("{} of stage {} with and without what goes to the host: their difference",
                    passes ? "an F" : "the update", slowest_),
        [this](double factor) {
          Cluster slower = cluster_;
          slow_host(slower, factor);
          for (Cluster& pool : slower.pools) slow_host(pool, factor);
          return cost_table(resolved_, known_, slower).table;
        },
        [this, passes](const CostTable& table) {
          const ActionKind kind = passes ? ActionKind::F : ActionKind::OPTIMIZER;
          const StageCost &now = table.stages[slowest_], &before = costs_.table.stages[slowest_];
          return to_seconds(now[kind] - before[kind] + costs_.offloaded[slowest_][kind]);
        });
  }

  const ResolvedPlan& resolved_;
  const CostBreakdown& costs_;
  const LayerCosts known_;
  const Cluster& cluster_;
  std::size_t slowest_;
  std::vector<Cause> causes_;
};

using StepAt = std::function<double(double factor)>;

// Where a step that does not fall with the factor is `target`: between two factors that bracket it,
// by the secant through them; an end that stays twice counts half (the Illinois rule; Dowell and
// Jarratt, BIT 11, 1971). Steps are maxima of sums of what is scaled: convex, so a few rounds do.
std::optional<double> factor_for(const StepAt& step, double target) {
  constexpr double kMost = 1024;
  constexpr double kNear = 1e-6;  // of the step
  const auto miss = [&](double factor) { return step(factor) - target; };
  const auto near = [&](double at) { return std::abs(at) <= kNear * target; };
  double low = 1, high = 1, at_low = miss(1), at_high = at_low;
  if (near(at_low)) return 1.0;
  // The step is already too long: the factor is between 0 and 1.
  if (at_low > 0) {
    low = 0;
    at_low = miss(0);
  }
  while (at_high < 0 && high < kMost) {
    low = std::exchange(high, 2 * high);
    at_low = std::exchange(at_high, miss(high));
  }
  if (near(at_low)) return low;
  if (near(at_high)) return high;
  // Even without this cause the step is too long, or even with 1024 times of it too short.
  if (at_low > 0 || at_high < 0) return std::nullopt;
  int stayed = 0;  // rounds that the same end has; below 0 the high one
  for (int round = 0; round < 100 && high - low > 1e-9 * high; ++round) {
    const double middle = (low * at_high - high * at_low) / (at_high - at_low);
    const double at = miss(middle);
    if (near(at)) return middle;
    (at < 0 ? low : high) = middle;
    (at < 0 ? at_low : at_high) = at;
    stayed = at < 0 ? std::min(stayed, 0) - 1 : std::max(stayed, 0) + 1;
    if (stayed < -1) at_high /= 2;
    if (stayed > 1) at_low /= 2;
  }
  return (low + high) / 2;
}

double unlikeness(const SuspectedCause& cause) {
  if (!cause.factor || *cause.factor <= 0) return std::numeric_limits<double>::infinity();
  return std::abs(std::log(*cause.factor));
}

}  // namespace

Gap explain_gap(const ResolvedPlan& resolved, const CostBreakdown& costs, const Costs& known,
                const Cluster& cluster, const Forecast& forecast, Seconds measured) {
  const Program& program = resolved.program;
  const Contention contention = contention_of(program, resolved.plan, known, cluster);
  const Nanoseconds overhead = to_nanoseconds(known.anchored_step_overhead());
  const auto step_of = [&](const CostTable& table) {
    const auto outcome = simulate(program, expand(program, table), contention);
    // As a forecast has it: what measured steps of the cluster take beside their program.
    return static_cast<double>((std::get<Timing>(outcome).makespan + overhead).count());
  };
  Gap gap{measured, measured - forecast.step_time, {}, {}};
  const std::optional<StepInterval>& interval = forecast.interval;
  if (interval) gap.within_interval = measured >= interval->low && measured <= interval->high;
  // A factor is as plausible as a step that is off by it as a whole.
  const auto plausible = [&](double factor) {
    const Seconds whole = forecast.step_time * factor;
    return whole >= interval->low && whole <= interval->high;
  };
  const auto target = static_cast<double>(to_nanoseconds(measured).count());
  Suspects suspects(resolved, costs, known, cluster);
  for (const Cause& cause : suspects.all()) {
    SuspectedCause suspected{.name = cause.name, .measurement = cause.measurement};
    suspected.factor =
        factor_for([&](double factor) { return step_of(cause.table(factor)); }, target);
    suspected.reading = cause.reading(costs.table);
    if (suspected.factor) suspected.reading_if = cause.reading(cause.table(*suspected.factor));
    if (interval) suspected.plausible = suspected.factor && plausible(*suspected.factor);
    gap.causes.push_back(std::move(suspected));
  }
  // The factor nearest to 1 is the likeliest, in logarithms: half is as far as twice.
  std::ranges::stable_sort(gap.causes, {}, &unlikeness);
  return gap;
}

}  // namespace weir
