// Sums a job's layers, and bounds a step by them.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/work_bound.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <variant>

#include "costmodel/table/stage_costs.hpp"
#include "plan/job/placement.hpp"
#include "plan/program/lower.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/schedule/shard_passes.hpp"
#include "sim/engine/compiled_engine.hpp"

namespace weir {
namespace {

double ns(Nanoseconds time) { return static_cast<double>(time.count()); }

// One layer's or all layers' time for one micro-batch.
struct Passes {
  double forward, backward, rebuilt_first;
  [[nodiscard]] double busy() const { return forward + backward + rebuilt_first; }
};

// Its backward is what the rank before waits for.
double passed_on(const StageCost& cost, const Plan& plan, bool split) {
  const double backward = split ? std::min(ns(cost.b), ns(cost.i)) : ns(cost.b);
  return plan.recompute.except_last ? backward - ns(cost.rebuild) : backward;
}

Passes passes(const StageCost& cost, const Plan& plan, bool split) {
  const double whole = ns(cost.b), parts = ns(cost.i) + ns(cost.w);
  const bool stage = plan.recompute.mode == RecomputeMode::stage;
  // Such a schedule may have whole backwards too: a bound takes the lesser.
  return {ns(cost.f), split ? std::min(whole, parts) : whole, stage ? ns(cost.r) : 0};
}

LayerWork summed(const StageCost& whole, std::span<const StageCost> kinds, const Plan& plan,
                 bool split) {
  LayerWork work;
  work.busy = passes(whole, plan, split).busy();
  work.path = ns(whole.f) + passed_on(whole, plan, split);
  if (plan.recompute.except_last)
    work.spared = plan.recompute.mode == RecomputeMode::stage ? ns(whole.r) : ns(whole.rebuild);
  work.forward_share = work.pass_share = 1;
  for (const StageCost& kind : kinds) {
    const Passes of = passes(kind, plan, split);
    if (of.busy() <= 0) continue;
    // A micro-batch that is spared passes without rebuilding.
    const double passing = of.forward + of.backward - ns(kind.rebuild);
    work.forward_share = std::min(work.forward_share, of.forward / of.busy());
    work.pass_share = std::min(work.pass_share, passing / of.busy());
  }
  return work;
}

// Ranks wait for the layers before theirs, `stages` being the stages of the model's first layers,
// one each.
void add_ramps(LayerWork& work, std::span<const StageCost> stages, const Plan& plan, bool split) {
  double behind = static_cast<double>(stages.size());
  for (const StageCost& stage : stages) {
    work.heads += behind * ns(stage.f);
    // Where the backward is split, W may be what is left to do while the others' I go on.
    if (!split) work.tails += behind * passed_on(stage, plan, split);
    --behind;
  }
}

// The first of (v, slices) with which there is a schedule of small (K, M).
constexpr std::array<std::pair<std::int32_t, std::int32_t>, 3> kParts{{{1, 1}, {2, 1}, {1, 2}}};

// Of four ranks and eight micro-batches, F, I and W of a rank taking as long; 1 where there is no
// such shape.
double small_ramp(std::string_view schedule) {
  constexpr std::int32_t kRanks = 4;
  for (const auto& [v, slices] : kParts) {
    const auto made = make_schedule(schedule, {kRanks, v, 2 * kRanks, slices});
    const auto* small = std::get_if<Schedule>(&made);
    if (small == nullptr) continue;
    const auto compiled = compile(lower(*small, {.slots = 0}));
    const auto* program = std::get_if<CompiledProgram>(&compiled);
    if (program == nullptr) continue;
    const Nanoseconds each(60 / v / slices);
    CostTable table;
    StageCost stage;
    stage.f = stage.i = stage.w = each;
    stage.b = 2 * each;
    table.stages.assign(static_cast<std::size_t>(small->shape.total_stages()), stage);
    table.forward_messages.resize(table.stages.size());
    table.backward_messages.resize(table.stages.size());
    Nanoseconds busy{0};
    for (const Action& action : small->order[Rank{0}])
      busy += action.kind == ActionKind::B ? 2 * each : each;
    // In parts of a rank's work on a micro-batch, and of the K - 1 ranks that it goes through.
    const double idle = ns(CompiledEngine(*program).makespan(table) - busy);
    return std::max(0.0, idle / (3 * 60) * v * slices / (kRanks - 1));
  }
  return 1;
}

}  // namespace

ScheduleTraits schedule_traits(std::string_view schedule) {
  for (const auto& [v, slices] : kParts) {
    for (const std::int32_t m : {2, 4, 8}) {
      const auto made = make_schedule(schedule, {2, v, m, slices});
      const auto* small = std::get_if<Schedule>(&made);
      if (small == nullptr) continue;
      bool splits = false;
      for (const auto& order : small->order) {
        splits = splits || std::ranges::any_of(
                               order, [](const Action& a) { return a.kind == ActionKind::I; });
      }
      const ScheduleShape& shape = small->shape;
      const bool one_copy = shape.replicas == 1, in_slices = shape.segments > 1;
      return {.splits_backward = splits,
              .one_way = v == 1 && one_copy && !in_slices,
              .one_copy = one_copy,
              .in_slices = in_slices,
              .vocabulary = shape.vocabulary,
              .ramp = small_ramp(schedule)};
    }
  }
  return {};
}

namespace {

// Everything that a rank's busy time may be added up from, with and without what is spared.
std::array<double, 7> times_of(const StageCost& cost) {
  const double rebuild = ns(cost.rebuild);
  return {ns(cost.f), ns(cost.b),           ns(cost.i),          ns(cost.w),
          ns(cost.r), ns(cost.b) - rebuild, ns(cost.i) - rebuild};
}

// An order that hides exchanges of experts wherever one does (costmodel/links/expert_overlap).
constexpr const char* kHides = "interleaved-1f1b";

std::vector<double> how_much_slower(const Plan& plan, const LayerCosts& known,
                                    const Cluster& cluster) {
  Plan anywhere = plan;
  anywhere.placement.clear();
  anywhere.vpp = 2;  // as for the bound
  anywhere.schedule = kHides;
  std::vector<StageCosts> kinds;
  for (int kind = 0; kind < cluster.kinds(); ++kind)
    kinds.emplace_back(anywhere, known.of_kind(kind), cluster.kind(kind));
  std::vector<double> slower(kinds.size(), std::numeric_limits<double>::max());
  for (const LayerRange& run : known.runs(plan.recompute)) {
    const LayerRange one{run.first, run.first + 1};
    std::vector<std::array<double, 7>> times;
    for (const StageCosts& kind : kinds) times.push_back(times_of(kind.of({.layers = one})));
    for (std::size_t t = 0; t < times.front().size(); ++t) {
      double least = times.front()[t];
      for (const auto& its : times) least = std::min(least, its[t]);
      for (std::size_t kind = 0; least > 0 && kind < times.size(); ++kind)
        slower[kind] = std::min(slower[kind], times[kind][t] / least);
    }
  }
  for (double& its : slower)
    if (its == std::numeric_limits<double>::max()) its = 1;  // nothing takes any time
  return slower;
}

}  // namespace

JobWork job_work(const Plan& plan, const LayerCosts& known, const Cluster& cluster) {
  // Whatever the chunks will be: no plan hides more of what experts exchange than one with some.
  Plan chunked = plan;
  chunked.vpp = 2;
  chunked.schedule = kHides;
  const StageCosts costs(chunked, known, cluster);
  const ModelPart& part = *known.part();
  const int layers = staged_layers(known.model());
  const StageCost whole = costs.of(stage_part(part, {0, layers}));
  std::vector<StageCost> kinds, first;  // each kind once; of the layers before the last rank
  JobWork work;
  // As the tables of such plans have it, to the nanosecond.
  if (layers < part.size()) work.shard = costs.of(stage_part(part, {layers, part.size()}));
  double block = std::numeric_limits<double>::max(), split_block = block;
  for (const LayerRange& run : known.runs(plan.recompute)) {
    if (run.first >= layers) break;  // the shard's, behind all others
    const bool is_block = known.part()->layer(run.first).block;
    work.blocks += is_block ? run.size() : 0;
    kinds.push_back(costs.of({.layers = {run.first, run.first + 1}}));
    for (int l = run.first; l < run.last && l + 1 < plan.pp; ++l) first.push_back(kinds.back());
    if (!is_block) continue;
    block = std::min(block, passes(kinds.back(), plan, false).busy());
    split_block = std::min(split_block, passes(kinds.back(), plan, true).busy());
  }
  work.whole = summed(whole, kinds, plan, false);
  work.split = summed(whole, kinds, plan, true);
  add_ramps(work.whole, first, plan, false);
  add_ramps(work.split, first, plan, true);
  work.layers = layers;
  if (work.blocks > 0) {
    work.whole.block = block;
    work.split.block = split_block;
  }
  work.update = ns(whole.optimizer) + plan.pp * ns(work.shard.optimizer);
  work.reduce = ns(whole.reduce);
  work.overhead = ns(to_nanoseconds(known.costs().anchored_step_overhead()));
  if (cluster.kinds() > 1) work.slower = how_much_slower(plan, known, cluster);
  return work;
}

void stand_on(JobWork& work, const Plan& plan, const Cluster& cluster) {
  if (cluster.kinds() == 1) return;
  const Placement placement(plan, cluster);
  work.equal_ranks = 0;
  for (std::int32_t rank = 0; rank < plan.pp; ++rank) {
    double slowest = 1;
    for (const int kind : placement.kinds(Rank{rank}))
      slowest = std::max(slowest, work.slower[at(kind)]);
    // So many ranks of the fastest kind would do as much.
    work.equal_ranks += 1 / slowest;
  }
}

namespace {

// A shard's passes for one micro-batch, ns.
struct ShardPassTimes {
  double s = 0, t = 0;
  double t_before_b = 0;  // of T, what B of the last stage waits for
};

ShardPassTimes shard_passes(const JobWork& work, const ScheduleTraits& traits) {
  const StageCost& shard = work.shard;
  if (traits.vocabulary == Vocabulary::whole) return {};
  // S has the input's gradient, and T of the last micro-batches may be all that is left to do.
  if (waits_for_forwards(traits.vocabulary)) return {ns(shard.f) + ns(shard.i), ns(shard.w), 0};
  return {ns(shard.f), ns(shard.b), ns(shard.b)};
}

}  // namespace

double work_bound(const JobWork& work, const ScheduleTraits& traits, const Plan& candidate) {
  const LayerWork& layers = traits.splits_backward ? work.split : work.whole;
  // Of slices, which are priced one by one.
  const double slices = candidate.slices, m = candidate.microbatches * slices, k = candidate.pp;
  const ShardPassTimes shard = shard_passes(work, traits);
  const bool whole = traits.vocabulary == Vocabulary::whole;
  // Of a rank: its shard's passes, and those of them that are behind it when its last B begins.
  const double shards = m * (shard.s + shard.t), before_b = m * (shard.s + shard.t_before_b);
  const double of_stages = m * layers.busy - slices * layers.spared;
  const double busy = of_stages + k * shards;
  const bool one_stage = traits.one_way && candidate.vpp == 1;
  const double once = work.update + (one_stage && whole ? work.reduce : 0);
  // docs/theory.md 3.2: the mean rank; the mean with heads and tails; the longest way; the rank
  // with the most blocks; and the weighted mean for any partition.
  double bound = (busy + once) / k;
  if (work.equal_ranks > 0) bound = std::max(bound, busy / work.equal_ranks);
  if (traits.one_copy && !traits.in_slices && candidate.stages() <= work.layers) {
    // With one barrier a rank may have T to do while its last gradients go back.
    const double tails = waits_for_forwards(traits.vocabulary) ? 0 : layers.tails;
    bound = std::max(bound, (busy + layers.heads + std::max(once, tails)) / k);
  }
  if (!traits.in_slices) bound = std::max(bound, layers.path + shard.s + shard.t_before_b);
  const double spared = candidate.recompute.except_last ? slices : 0;
  if (traits.one_copy)
    bound = std::max(bound, shards + (m - spared) * std::ceil(work.blocks / k) * layers.block);
  if (one_stage && candidate.pp > 1) {
    // c x, where x = of_stages / m and `less` is 1 - r / M.
    const auto ramp = [&](double share) {
      const double less = 1 - share / m;
      return share <= 0 ? 0 : share * (of_stages / m) / (1 - std::pow(less, k));
    };
    bound = std::max(bound, shards + ramp(layers.forward_share));
    if (!traits.splits_backward) bound = std::max(bound, before_b + ramp(layers.pass_share));
  }
  // Each action's time is rounded to whole nanoseconds.
  const double rounding = 4.0 * (m + 4 + k) * candidate.vpp * candidate.vpp;
  return std::max(0.0, bound - rounding) + work.overhead;
}

double work_estimate(const JobWork& work, const ScheduleTraits& traits, const Plan& candidate,
                     double bound_ns) {
  const LayerWork& layers = traits.splits_backward ? work.split : work.whole;
  const double slices = candidate.slices, m = candidate.microbatches * slices, k = candidate.pp;
  const ShardPassTimes shard = shard_passes(work, traits);
  const double idle = traits.ramp * (k - 1) / candidate.vpp * layers.busy;
  const double busy = m * (layers.busy + k * (shard.s + shard.t)) - slices * layers.spared +
                      work.update + work.reduce;
  const double ranks = work.equal_ranks > 0 ? work.equal_ranks : k;
  return std::max(bound_ns, (busy + idle) / ranks + work.overhead);
}

}  // namespace weir
