// Sums a job's layers, and bounds a step by them.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/work_bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <variant>

#include "costmodel/table/stage_costs.hpp"
#include "plan/schedule/generators/generators.hpp"

namespace weir {
namespace {

double ns(Nanoseconds time) { return static_cast<double>(time.count()); }

// One layer's or all layers' time for one micro-batch.
struct Passes {
  double forward, backward, rebuilt_first;
  [[nodiscard]] double busy() const { return forward + backward + rebuilt_first; }
};

Passes passes(const StageCost& cost, const Plan& plan, bool split) {
  const double whole = ns(cost.b), parts = ns(cost.i) + ns(cost.w);
  const bool stage = plan.recompute.mode == RecomputeMode::stage;
  return {ns(cost.f), split ? std::min(whole, parts) : whole, stage ? ns(cost.r) : 0};
}

LayerWork summed(const StageCost& whole, std::span<const StageCost> kinds, const Plan& plan,
                 bool split) {
  LayerWork work;
  work.busy = passes(whole, plan, split).busy();
  if (plan.recompute.except_last)
    work.spared = plan.recompute.mode == RecomputeMode::stage ? ns(whole.r) : ns(whole.rebuild);
  work.forward_share = work.pass_share = 1;
  for (const StageCost& kind : kinds) {
    const Passes of = passes(kind, plan, split);
    if (of.busy() <= 0) continue;
    const double passing = of.forward + of.backward - ns(kind.rebuild);
    work.forward_share = std::min(work.forward_share, of.forward / of.busy());
    work.pass_share = std::min(work.pass_share, passing / of.busy());
  }
  return work;
}

}  // namespace

ScheduleTraits schedule_traits(std::string_view schedule) {
  for (const std::int32_t v : {1, 2}) {
    for (const std::int32_t m : {2, 4, 8}) {
      const auto made = make_schedule(schedule, {2, v, m});
      const auto* small = std::get_if<Schedule>(&made);
      if (small == nullptr) continue;
      bool splits = false;
      for (const auto& order : small->order) {
        splits = splits || std::ranges::any_of(
                               order, [](const Action& a) { return a.kind == ActionKind::I; });
      }
      const ScheduleShape& shape = small->shape;
      const bool one_copy = shape.replicas == 1;
      return {splits, v == 1 && one_copy && shape.segments == 1, one_copy};
    }
  }
  return {};
}

JobWork job_work(const Plan& plan, const LayerCosts& known, const Cluster& cluster) {
  const StageCosts costs(plan, known, cluster);
  const auto layers = static_cast<int>(known.model().layers.size());
  const StageCost whole = costs.of(stage_parts(*known.part(), {}, looped_shape(1, 1, 1)).front());
  std::vector<StageCost> kinds;
  JobWork work;
  double block = std::numeric_limits<double>::max(), split_block = block;
  for (int l = 0; l < layers; ++l) {
    const bool is_block = known.part()->layer(l).block;
    work.blocks += is_block ? 1 : 0;
    const auto again = [&](int layer) {
      return rebuilds(plan.recompute, known.part()->layer(layer), layer);
    };
    if (known.like_the_last(l) && again(l) == again(l - 1)) continue;
    kinds.push_back(costs.of({.layers = {l, l + 1}}));
    if (!is_block) continue;
    block = std::min(block, passes(kinds.back(), plan, false).busy());
    split_block = std::min(split_block, passes(kinds.back(), plan, true).busy());
  }
  work.whole = summed(whole, kinds, plan, false);
  work.split = summed(whole, kinds, plan, true);
  if (work.blocks > 0) {
    work.whole.block = block;
    work.split.block = split_block;
  }
  work.update = ns(whole.optimizer);
  work.reduce = ns(whole.reduce);
  work.overhead = ns(to_nanoseconds(known.costs().anchored_step_overhead()));
  return work;
}

double work_bound(const JobWork& work, const ScheduleTraits& traits, const Plan& candidate) {
  const LayerWork& layers = traits.splits_backward ? work.split : work.whole;
  const double m = candidate.microbatches, k = candidate.pp;
  const double busy = m * layers.busy - layers.spared;
  const bool one_stage = traits.one_way && candidate.vpp == 1;
  double bound = (busy + work.update + (one_stage ? work.reduce : 0)) / k;
  const double spared = candidate.recompute.except_last ? 1 : 0;
  if (traits.one_copy)
    bound = std::max(bound, (m - spared) * std::ceil(work.blocks / k) * layers.block);
  if (one_stage && candidate.pp > 1) {
    const auto ramp = [&](double share) {
      const double less = 1 - share / m;
      return share <= 0 ? 0 : share * (busy / m) / (1 - std::pow(less, k));
    };
    bound = std::max(bound, ramp(layers.forward_share));
    if (!traits.splits_backward) bound = std::max(bound, ramp(layers.pass_share));
  }
  // Each action's time is rounded to whole nanoseconds, and down where slices share it.
  const double rounding = 4.0 * (m + 4) * candidate.vpp * candidate.vpp;
  return std::max(0.0, bound - rounding) + work.overhead;
}

}  // namespace weir
