// Divides each rounded time in proportion to what it was added up from.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/table/cost_breakdown.hpp"

#include <cstdint>

#include "costmodel/table/dynamic_context.hpp"
#include "costmodel/table/stage_costs.hpp"

namespace weir {
namespace {

// `whole` in proportion to the weights, each border between two parts rounded down, so that the
// parts sum to it.
PerCause<Nanoseconds> divided(Nanoseconds whole, const PerCause<Seconds>& weights) {
  constexpr auto kWeights = PerCause<Seconds>::members();
  constexpr auto kParts = PerCause<Nanoseconds>::members();
  double sum = 0;
  for (const auto weight : kWeights) sum += (weights.*weight).count();
  PerCause<Nanoseconds> parts;
  // Nothing to divide by: all of it is work.
  if (sum <= 0) {
    parts.work = whole;
    return parts;
  }
  double until = 0;
  std::int64_t before = 0;
  for (std::size_t i = 0; i + 1 < kParts.size(); ++i) {
    until += (weights.*kWeights[i]).count();
    const auto border =
        static_cast<std::int64_t>(static_cast<double>(whole.count()) * (until / sum));
    parts.*kParts[i] = Nanoseconds(border - before);
    before = border;
  }
  // What rounding left over goes to the last part.
  parts.*kParts.back() = whole - Nanoseconds(before);
  return parts;
}

// Of a host's part the share that it has only because something is offloaded.
Nanoseconds offloaded(const PerCause<Nanoseconds>& part, Seconds with, Seconds without) {
  if (with <= without) return Nanoseconds(0);
  const double share = (with - without) / with;
  return Nanoseconds(static_cast<std::int64_t>(static_cast<double>(part.host.count()) * share));
}

ResolvedPlan with_plan(ResolvedPlan resolved, const Plan& plan) {
  resolved.plan = plan;
  return resolved;
}

}  // namespace

CostBreakdown cost_breakdown(const ResolvedPlan& resolved, const LayerCosts& known,
                             const Cluster& cluster) {
  require_stages(resolved, cluster.stack);
  StageCosts costs(resolved.plan, known, cluster);
  const ScheduleShape& shape = resolved.schedule.shape;
  CostBreakdown breakdown{costs.table(shape, resolved.stages, resolved.ties), {}, {}};
  Plan kept = resolved.plan;
  kept.offload_optimizer = kept.offload_activations = 0;
  StageCosts on_device(kept, known, cluster);
  // The same where no send keeps a stage: what is more are messages.
  Cluster apart = cluster;
  apart.stack.time.blocking_messages = false;
  CostTable unkept =
      StageCosts(resolved.plan, known, apart).table(shape, resolved.stages, resolved.ties);
  const bool dynamic = resolved.plan.lengths.dynamic_cp > 0;
  for (std::size_t s = 0; s < resolved.stages.size(); ++s) {
    const Rank rank = shape.rank_of(Stage{static_cast<std::int32_t>(s)});
    PerKind<PerCause<Seconds>> weights = costs.parts(resolved.stages[s], rank);
    PerKind<PerCause<Seconds>> without = on_device.parts(resolved.stages[s], rank);
    // One stage, and no messages: what its sequences take is all that a micro-batch does.
    if (dynamic) {
      StageCost& stage = breakdown.table.stages[s];
      const DynamicCosts its = dynamic_costs(resolved, known, cluster, stage);
      for (const ActionKind kind : kPassKinds) weights[kind] = its.parts[kind];
      unkept.stages[s] = stage = its.stage;
      // What the host has of it with nothing offloaded.
      const bool offloads = !(kept == resolved.plan);
      const PerKind<PerCause<Seconds>> parts =
          offloads ? dynamic_costs(with_plan(resolved, kept), known, cluster, stage).parts
                   : its.parts;
      for (const ActionKind kind : kPassKinds) without[kind] = parts[kind];
    }
    const StageCost& all = breakdown.table.stages[s];
    const StageCost& own = unkept.stages[s];
    PerKind<PerCause<Nanoseconds>>& parts = breakdown.stages.emplace_back();
    PerKind<Nanoseconds>& away = breakdown.offloaded.emplace_back();
    for (const ActionKind kind : kComputeKinds) {
      const Nanoseconds rebuild = is_backward(kind) ? own.rebuild : Nanoseconds(0);
      parts[kind] = divided(own[kind] - rebuild, weights[kind]);
      away[kind] = offloaded(parts[kind], weights[kind].host, without[kind].host);
      parts[kind].rematerialised += rebuild;
      parts[kind].messages += all[kind] - own[kind];
    }
    parts.r = {.rematerialised = all.r};
  }
  return breakdown;
}

}  // namespace weir
