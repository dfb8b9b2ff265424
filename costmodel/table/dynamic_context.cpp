// Prices kinds of sequences as plans of their own, and adds them up as they are dealt.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/table/dynamic_context.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "costmodel/layers/dealt_step.hpp"
#include "costmodel/table/builtin.hpp"
#include "costmodel/table/stage_costs.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

// Halves of a sequence's ends lie on each device, and tensor parallelism divides them.
std::int64_t tokens_divide_by(const Plan& plan) { return std::int64_t{2} * plan.tp; }

std::int64_t rounded_up(std::int64_t tokens, std::int64_t multiple_of) {
  return (tokens + multiple_of - 1) / multiple_of * multiple_of;
}

struct PricedSequence {
  StageCost cost;
  PerKind<PerCause<Seconds>> parts;
};

class Pricer {
 public:
  Pricer(const ResolvedPlan& resolved, const LayerCosts& known, const Cluster& cluster)
      : resolved_(resolved), known_(known), cluster_(cluster) {}

  const PricedSequence& operator()(const SequenceKind& kind) {
    const auto [found, fresh] = priced_.try_emplace(kind);
    if (fresh) found->second = price(of_sequence(resolved_.plan, kind.tokens, kind.devices));
    return found->second;
  }
  // A schedule that divides the backward takes as long in all.
  Seconds takes(const SequenceKind& kind) {
    const StageCost& cost = (*this)(kind).cost;
    const bool again = resolved_.plan.recompute.mode == RecomputeMode::stage;
    return to_seconds(cost.f + cost.b + (again ? cost.r : Nanoseconds(0)));
  }

 private:
  [[nodiscard]] PricedSequence price(const Plan& plan) const {
    Costs costs =
        builtin_costs(resolved_.model, plan.seq_length, plan.dtype, cluster_, {plan.split()});
    if (known_.costs().anchor) {
      costs.basis = known_.costs().basis;
      set_anchor(costs, *known_.costs().anchor);
    }
    const LayerCosts layers(plan, resolved_.model, costs, cluster_.stack);
    StageCosts stages(plan, layers, cluster_);
    const StagePart& stage = resolved_.stages.front();
    return {stages.of(stage, Rank{0}), stages.parts(stage, Rank{0})};
  }

  const ResolvedPlan& resolved_;
  const LayerCosts& known_;
  const Cluster& cluster_;
  std::map<SequenceKind, PricedSequence> priced_;
};

// The reduction is hidden behind the backward of a sequence like most: the last of a step's.
SequenceKind usual_sequence(const Plan& plan, const DealtStep& dealt) {
  SequenceKind usual{tokens_divide_by(plan), 1};
  double most = 0;
  for (const auto& [kind, passes] : dealt.passes) {
    if (passes <= most) continue;
    most = passes;
    usual = kind;
  }
  return usual;
}

}  // namespace

Plan of_sequence(const Plan& plan, std::int64_t tokens, int devices) {
  Plan of = plan;
  of.seq_length = tokens;
  of.lengths = {};
  of.micro_batch_size = 1;
  of.samples = 0;
  of.cp = devices;
  of.dp = plan.replicas() / devices;
  return of;
}

Plan of_fullest_sequence(const Plan& plan) {
  const std::int64_t longest = plan.lengths.quantiles.back(), most = plan.lengths.dynamic_cp;
  int devices = 1;
  while (most * devices * 2 <= longest) devices *= 2;
  const std::int64_t of_device =
      rounded_up(std::min(most, longest / devices), tokens_divide_by(plan));
  return of_sequence(plan, of_device * devices, devices);
}

DynamicCosts dynamic_costs(const ResolvedPlan& resolved, const LayerCosts& known,
                           const Cluster& cluster, const StageCost& own) {
  const Plan& plan = resolved.plan;
  if (!stands_on_builtin(known.costs().basis)) {
    throw InputError(known.costs().file, "layers",
                     "are of whole rows: the plan's lengths.dynamic_cp needs built-in costs, of "
                     "sequences of any length");
  }
  Pricer price(resolved, known, cluster);
  const SequencesOfAStep step{plan.lengths, plan.global_batch_size() * plan.seq_length,
                              plan.replicas(), tokens_divide_by(plan)};
  const DealtStep dealt =
      dealt_step(step, [&](const SequenceKind& kind) { return price.takes(kind); });
  DynamicCosts mean{own, {}};
  PerKind<Seconds> time;
  Seconds rebuild(0);
  for (const auto& [kind, passes] : dealt.passes) {
    const PricedSequence& priced = price(kind);
    const double times = passes / plan.microbatches;
    rebuild += to_seconds(priced.cost.rebuild) * times;
    for (const ActionKind pass : kPassKinds) {
      time[pass] += to_seconds(priced.cost[pass]) * times;
      for (const auto cause : PerCause<Seconds>::members())
        mean.parts[pass].*cause += priced.parts[pass].*cause * times;
    }
  }
  for (const ActionKind pass : kPassKinds) mean.stage[pass] = to_nanoseconds(time[pass]);
  mean.stage.rebuild = to_nanoseconds(rebuild);
  const Nanoseconds update = own.optimizer;
  if (const auto straggler = cluster.stragglers.find(0); straggler != cluster.stragglers.end())
    mean.stage = slowed(mean.stage, straggler->second);
  mean.stage.optimizer = update;  // slowed already
  mean.stage.unlike = to_nanoseconds(dealt.waits);
  mean.stage.reduce = price(usual_sequence(plan, dealt)).cost.reduce + mean.stage.unlike;
  return mean;
}

}  // namespace weir
