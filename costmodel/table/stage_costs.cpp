// Sums prices of layers into stages, and adds what stages send and cost each other.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/table/stage_costs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "costmodel/links/collectives.hpp"
#include "costmodel/links/offload.hpp"
#include "costmodel/links/parallel.hpp"
#include "costmodel/table/neighbours.hpp"
#include "plan/schedule/shard_passes.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

// Of two costs, each time for itself.
template <class Pick>
StageCost each(const StageCost& a, const StageCost& b, Pick pick) {
  StageCost picked;
  for (const ActionKind kind : kComputeKinds) picked[kind] = pick(a[kind], b[kind]);
  picked.reduce = pick(a.reduce, b.reduce);
  picked.unlike = pick(a.unlike, b.unlike);
  picked.rebuild = pick(a.rebuild, b.rebuild);
  return picked;
}

// What corrections make of a layer's own time.
Correction corrections(const Plan& plan, const Costs& costs) {
  const double quiet = quiet_share(plan, costs);
  const double of_size = factor_at(costs.by_size, plan.micro_batch_size);
  Correction by;
  for (const ActionKind kind : kComputeKinds) {
    by[kind] = costs.correction[kind] * std::pow(costs.alone[kind], quiet);
    // The update knows no micro-batch.
    if (kind != ActionKind::OPTIMIZER) by[kind] *= of_size;
  }
  return by;
}

MessageCost scaled(const MessageCost& message, double by) {
  return {to_nanoseconds(to_seconds(message.occupancy) * by),
          to_nanoseconds(to_seconds(message.latency) * by)};
}

// Asked before anything is priced, since prices are made of the host's link.
const Cluster& with_its_host(const Plan& plan, const Cluster& cluster) {
  if (const auto why = lacks_host(plan, cluster)) {
    throw InputError(
        cluster.name, "host",
        fmt::format("{}, which the plan's {} needs", *why,
                    plan.offload_optimizer > 0 ? "offload_optimizer" : "offload_activations"));
  }
  return cluster;
}

}  // namespace

StageCosts::StageCosts(const Plan& plan, const LayerCosts& known, const Cluster& cluster)
    : plan_(plan),
      known_(known),
      cluster_(with_its_host(plan, cluster)),
      anchor_(known.costs().factors()),
      corrected_(corrections(plan, known.costs())),
      prices_(plan, known, cluster) {
  if (cluster.pools.empty()) return;
  placement_.emplace(plan, cluster);
  for (int kind = 1; kind < cluster.kinds(); ++kind)
    other_kinds_.emplace_back(plan, known.of_kind(kind), cluster.kind(kind));
}

std::vector<std::string> StageCosts::warnings() const {
  std::vector<std::string> all = prices_.warnings();
  for (const StageCosts& kind : other_kinds_) {
    for (const std::string& warning : kind.prices_.warnings()) {
      if (std::ranges::find(all, warning) == all.end()) all.push_back(warning);
    }
  }
  return all;
}

double StageCosts::device_over_host() const {
  double least = prices_.device_over_host();
  for (const StageCosts& kind : other_kinds_)
    least = std::min(least, kind.prices_.device_over_host());
  return least;
}

StageCost StageCosts::of(const StagePart& stage) const {
  StageCost least = own(stage);
  for (const StageCosts& kind : other_kinds_)
    least = each(least, kind.own(stage), [](auto a, auto b) { return std::min(a, b); });
  return least;
}

StageCost StageCosts::of(const StagePart& stage, Rank rank) const {
  if (!placement_) return own(stage);
  StageCost most;
  for (const int kind : placement_->kinds(rank)) {
    const StageCost its = kind == 0 ? own(stage) : other_kinds_[at(kind - 1)].own(stage);
    most = each(most, its, [](auto a, auto b) { return std::max(a, b); });
  }
  return most;
}

StageCosts::Sums StageCosts::sums(LayerRange layers) const {
  // Adding a few up takes no longer than looking them up.
  constexpr int kFew = 16;
  if (layers.size() <= kFew) return added(layers);
  // Of layers that are alike as many come to the same wherever they begin.
  const LayerRange alike = prices_.from(layers.first).front().layers;
  if (layers.last <= alike.last) layers = {alike.first, alike.first + layers.size()};
  const auto [known, fresh] = known_sums_.try_emplace({layers.first, layers.last});
  if (fresh) known->second = added(layers);
  return known->second;
}

// In layer order, so that equal stages have equal bits wherever they stand.
StageCosts::Sums StageCosts::added(const LayerRange& layers) const {
  Sums sums;
  for (const PricedLayers& alike : prices_.from(layers.first)) {
    const LayerPrice& layer = alike.price;
    const int last = std::min(alike.layers.last, layers.last);
    for (int l = std::max(alike.layers.first, layers.first); l < last; ++l) {
      sums.time += layer.time;
      sums.traffic += layer.traffic;
      sums.varying.add(layer.varying.f, corrected_.f);
      sums.varying.add(layer.varying.b, corrected_.b);
      sums.varying.add(layer.varying.r, corrected_.r);
      if (layer.rebuild.count() == 0) continue;
      sums.rebuild += layer.rebuild;
      sums.rebuild_traffic += layer.traffic.r;
    }
    if (last == layers.last) break;
  }
  return sums;
}

StageCost StageCosts::own(const StagePart& stage) const {
  const Sums sum = sums(stage.layers);
  const StackTime& stack = cluster_.stack.time;
  const StepTraffic step = once_a_step(stage);
  const Seconds again = sum.rebuild * corrected_.r + sum.rebuild_traffic;
  const auto pass = [&](ActionKind kind) {
    const Seconds own = sum.time[kind] * corrected_[kind] + sum.traffic[kind];
    return is_backward(kind) ? own + again : own;
  };
  // Rounded once a stage: rounding each layer would add up.
  StageCost cost;
  for (const ActionKind kind : kPassKinds) cost[kind] = to_nanoseconds(pass(kind));
  if (keeps_backward_whole(stage)) {
    cost.w = cost.b;
    cost.i = Nanoseconds(0);
  }
  cost.rebuild = to_nanoseconds(again);
  const int layers = stage.layers.size();
  Seconds reduce = step.reduce;
  if (stack.overlaps_reduction.value_or(plan_.overlap_grad_reduce)) {
    // Only what the last backward cannot hide is left, and what hides slows it.
    const Seconds left = exposed_reduction(reduce, pass(ActionKind::B), layers);
    reduce = left + (reduce - left) * stack.overlap_slowdown;
  }
  // Who has the shorter sequences waits for the others where gradients are summed.
  const Seconds unlike = waits_for_lengths(sum.varying);
  cost.unlike = to_nanoseconds(unlike);
  cost.reduce = to_nanoseconds(reduce + unlike);
  cost.optimizer =
      to_nanoseconds(sum.time.optimizer * corrected_.optimizer + by_the_host(stage) + step.gather);
  // What was timed there has it already.
  const double slowdown = stands_on_builtin(known_.costs().basis) ? cluster_.kind(0).slowdown : 1.0;
  return slowdown == 1 ? cost : slowed(cost, slowdown);
}

// Under ZeRO 3 weights are gathered layer by layer, and experts take the tokens of all who share
// them: these devices are together in every micro-batch, the other replicas once a step.
Seconds StageCosts::waits_for_lengths(const MicrobatchTime& time) const {
  if (!plan_.lengths.known()) return Seconds(0);
  UnlikeReplicas replicas{plan_.micro_batch_size, plan_.microbatches, plan_.dp, 1};
  const int shards = plan_.zero == 3 ? plan_.sharers() / plan_.cp : 1;
  const int experts = plan_.ep * plan_.expert_tp() / (plan_.tp * plan_.cp);
  replicas.each_microbatch = std::clamp(std::max(shards, plan_.ep > 1 ? experts : 1), 1, plan_.dp);
  return imbalance(plan_.lengths, plan_.seq_length, time, replicas);
}

Seconds StageCosts::by_the_host(const StagePart& stage) const {
  if (plan_.offload_optimizer == 0) return Seconds(0);
  const Cluster& nodes = cluster_.kind(0);
  const Stack& stack = cluster_.stack;
  const double gradient = stack.own_tensors ? 4 : stack.memory.gradients;
  const std::int64_t repeated = repeated_numbers(*known_.part(), std::span(&stage.layers, 1));
  const double numbers = offloaded_numbers(stage, plan_, repeated);
  return offloaded_update(numbers, gradient, plan_, nodes).all() * anchor_.step;
}

bool StageCosts::keeps_backward_whole(const StagePart& stage) const {
  return known_.costs().first_backward_in_w && stage.layers.first == 0;
}

StepTraffic StageCosts::once_a_step(const StagePart& stage) const {
  const Stack& stack = cluster_.stack;
  const std::int64_t trained_experts = stage.trained_expert_parameters;
  const HeldNumbers of_experts{stage.expert_parameters, trained_experts, trained_experts},
      others{stage.parameters - of_experts.held, stage.trained_parameters - trained_experts,
             stage.trained_products};
  // Experts have replicas of their own: both sums are done, one after the other.
  StepTraffic step = step_traffic(others, plan_, prices_.links().replicas, stack);
  if (of_experts.held > 0) {
    const StepTraffic experts =
        expert_step_traffic(of_experts, plan_, prices_.links().expert_replicas, stack);
    step.reduce += experts.reduce;
    step.gather += experts.gather;
  }
  if (stack.time.overlaps_gather.value_or(plan_.overlap_param_gather))
    step.gather *= stack.time.overlap_slowdown;
  step.reduce *= anchor_.step;
  step.gather *= anchor_.step;
  return step;
}

// Of a rank on several kinds, those of the one whose backward takes longest.
PerKind<PerCause<Seconds>> StageCosts::parts(const StagePart& stage, Rank rank) {
  if (!placement_) return own_parts(stage);
  StageCosts* slowest = nullptr;
  for (const int kind : placement_->kinds(rank)) {
    StageCosts& its = kind == 0 ? *this : other_kinds_[at(kind - 1)];
    if (slowest == nullptr || its.own(stage).b > slowest->own(stage).b) slowest = &its;
  }
  return slowest->own_parts(stage);
}

PerKind<PerCause<Seconds>> StageCosts::own_parts(const StagePart& stage) {
  PerKind<PerCause<Seconds>> sum;
  std::optional<PriceParts> parts;
  for (int l = stage.layers.first; l < stage.layers.last; ++l) {
    // The same sums as `own` makes, kept apart by cause: each cause is corrected by its kind's
    // factor, traffic by none.
    const PricedLayers& alike = prices_.from(l).front();
    const LayerPrice& layer = alike.price;
    // Once for all layers that are priced alike.
    if (!parts || l == alike.layers.first) parts = prices_.parts(alike.layers.first);
    const PriceParts& its = *parts;
    for (const ActionKind kind : kPassKinds) {
      PerCause<Seconds>& of = sum[kind];
      const Seconds core = is_backward(kind) ? its.core : Seconds(0);
      const double factor = corrected_[kind];
      of.work += (layer.time[kind] - its.replicas[kind] - core) * factor;
      of.rematerialised += core * factor;
      of.replicas += its.replicas[kind] * factor;
      of.tensor += its.tensor[kind];
      of.context += its.context[kind];
      of.experts += its.experts[kind];
      // What the layers' traffic has beyond messages is the host's.
      of.host += layer.traffic[kind] - its.tensor[kind] - its.context[kind] - its.experts[kind];
    }
    sum.optimizer.work += layer.time.optimizer * corrected_.optimizer;
  }
  if (keeps_backward_whole(stage)) {
    sum.w = sum.b;
    sum.i = {};
  }
  sum.optimizer.replicas = once_a_step(stage).gather;
  sum.optimizer.host = by_the_host(stage);
  return sum;
}

CostTable StageCosts::table(const ScheduleShape& shape, std::span<const StagePart> stages,
                            std::span<const Tie> ties) const {
  return together(alone(shape, stages), shape, ties);
}

CostTable StageCosts::alone(const ScheduleShape& shape, std::span<const StagePart> stages) const {
  CostTable table;
  table.basis = known_.costs().basis;
  table.host_overhead = to_nanoseconds(known_.costs().host_overhead * anchor_.compute);
  const auto all = static_cast<std::size_t>(shape.total_stages());
  table.stages.resize(all);
  table.forward_messages.resize(all);
  table.backward_messages.resize(all);
  for (std::int32_t s = 0; s < shape.total_stages(); ++s) price(table, shape, stages, Stage{s});
  for (std::int32_t s = 0; s < shape.total_stages(); ++s) {
    const Stage from{s};
    for (const auto& [to, bytes] : stages[from.position()].skips_out) {
      table.skips.push_back(
          {{from, to}, message(shape, from, to, bytes), message(shape, to, from, bytes)});
    }
  }
  return table;
}

Link StageCosts::stage_link_between(Rank from, Rank to) const {
  return placement_ ? placement_->link(from, to)
                    : stage_link(known_.costs(), plan_, cluster_, from, to);
}

MessageCost StageCosts::message(const ScheduleShape& shape, Stage from, Stage to,
                                std::int64_t sample_bytes) const {
  const auto full = static_cast<double>(sample_bytes * plan_.micro_batch_size);
  const Bytes bytes(static_cast<std::int64_t>(full * prices_.row().tokens));
  const Rank rank = shape.rank_of(from), other = shape.rank_of(to);
  const Link link = stage_link_between(rank, other);
  const Cluster& nodes = cluster_.kind(placement_ ? placement_->kinds(rank).front() : 0);
  return scaled(stage_message(bytes, plan_, link, nodes), anchor_.messages);
}

void StageCosts::price(CostTable& alone, const ScheduleShape& shape,
                       std::span<const StagePart> stages, Stage stage) const {
  const auto index = static_cast<std::size_t>(stage.value);
  const StagePart& its = stages[index];
  const Rank rank = shape.rank_of(stage);
  const auto straggler = cluster_.stragglers.find(rank.value);
  StageCost cost = of(its, rank);
  // With one barrier S makes the input's gradient too, and T is left the shard's rows
  // (algorithm 2 of plan/schedule/shard_passes' source).
  if (shape.is_shard(stage) && waits_for_forwards(shape.vocabulary)) {
    cost.f += cost.i;
    cost.b = cost.w;
  }
  alone.stages[index] =
      straggler == cluster_.stragglers.end() ? cost : slowed(cost, straggler->second);
  const auto to_neighbour = [&](ActionKind send, Stage to) {
    return message(shape, stage, to, its.message_bytes({stage, send}));
  };
  alone.forward_messages[index] =
      shape.is_last(stage) ? MessageCost{} : to_neighbour(ActionKind::SEND_F, stage + 1);
  alone.backward_messages[index] =
      shape.is_first(stage) ? MessageCost{} : to_neighbour(ActionKind::SEND_B, stage - 1);
  if (shape.shards() == 0 || !shape.is_last(stage)) return;
  const ShardCollectives shared =
      shard_collectives(shape, stages[static_cast<std::size_t>(shape.stages) - 1]);
  const bool shard = shape.is_shard(stage);
  alone.forward_messages[index].occupancy = shard ? shared.all_reduce_f : shared.broadcast;
  if (!shard) return;
  // Within the compute it begins behind T's input gradient: what W does not hide is waited for.
  const Nanoseconds beside =
      shape.vocabulary == Vocabulary::synchronous ? alone.stages[index].w : Nanoseconds(0);
  alone.backward_messages[index].occupancy = std::max(Nanoseconds(0), shared.all_reduce_b - beside);
}

// docs/theory.md 2.7, with the dtypes of the authors' fork: what is broadcast travels in fp32
// beside the compute, in the number format within it; maxima and sums in fp32, gradients in the
// number format.
StageCosts::ShardCollectives StageCosts::shard_collectives(const ScheduleShape& shape,
                                                           const StagePart& last) const {
  const Split split = plan_.split();
  const std::int64_t element = bytes_per_element(plan_.dtype);
  const auto of_row = [&](std::int64_t whole_row) {
    const auto all = static_cast<double>(whole_row * plan_.micro_batch_size);
    return Bytes(static_cast<std::int64_t>(all * prices_.row().tokens));
  };
  const bool synchronous = shape.vocabulary == Vocabulary::synchronous;
  // Synchronous ones sum whole rows over all devices that divide the model's layers.
  const std::int64_t held = split.sequence_parallel && !synchronous ? split.tp : 1;
  const int among = shape.ranks * (synchronous ? split.tp : 1);
  const Bytes numbers = of_row(split.tokens(plan_.seq_length) / held * 4);
  const Bytes hidden = of_row(last.output_bytes), wide = of_row(last.output_bytes / element * 4);
  const Link link = pipeline_group(shape);
  const auto summed = [&](Bytes n) { return all_reduce(n, among, link); };
  const auto spread = [&](Bytes n) {
    // Down a ring, piece by piece: the last member has the first piece behind all others.
    return point_to_point(n, link) + link.latency * (shape.ranks - 2.0);
  };
  const bool one = waits_for_forwards(shape.vocabulary);
  // The embedding's: a sum of what was looked up, and its gradient to all.
  const Seconds looked_up = summed(hidden) + spread(hidden);
  const Seconds statistics = 3.0 * summed(numbers);
  const auto time = [&](Seconds seconds) { return to_nanoseconds(seconds * anchor_.messages); };
  return {time(spread(synchronous ? hidden : wide)),
          time(statistics + looked_up + (one ? summed(hidden) : Seconds(0))), time(summed(hidden))};
}

Link StageCosts::pipeline_group(const ScheduleShape& shape) const {
  // The slowest on the way around, of those that were measured or stand in the placement.
  if (placement_ || !stands_on_builtin(known_.costs().basis)) {
    Link slowest = stage_link_between(Rank{0}, Rank{1});
    for (std::int32_t rank = 1; rank < shape.ranks; ++rank) {
      const Link link = stage_link_between(Rank{rank}, Rank{(rank + 1) % shape.ranks});
      if (link.bandwidth < slowest.bandwidth) slowest = link;
    }
    return slowest;
  }
  const int apart = plan_.rank_order == RankOrder::tp_cp_pp_dp ? 1 : plan_.dp;
  return group_link(cluster_, shape.ranks, plan_.tp * plan_.cp * apart);
}

CostTable StageCosts::together(CostTable alone, const ScheduleShape& shape,
                               std::span<const Tie> ties) const {
  if (cluster_.stack.time.blocking_messages) block_messages(alone, shape);
  // The executor's exchange of tied gradients is part of its update; on a GPU cluster it is a
  // reduction of its own.
  if (!cluster_.device.kernels) return alone;
  for (const Tie& tie : ties) {
    const Nanoseconds reduction = tie_reduction(tie, shape);
    for (std::int32_t s = 0; s < shape.total_stages(); ++s) {
      if (std::ranges::binary_search(tie.holders, shape.original(Stage{s})))
        alone.stages[static_cast<std::size_t>(s)].reduce += reduction;
    }
  }
  return alone;
}

// A stack whose sends wait keeps the sender's stage for the time of the message, and the host's
// time about it; the receiver's host has as much to do.
void StageCosts::block_messages(CostTable& table, const ScheduleShape& shape) const {
  const Nanoseconds host = to_nanoseconds(cluster_.stack.time.message * anchor_.messages);
  const auto wait = [&](StageCost& cost, bool forward, Nanoseconds time) {
    cost.f += forward ? time : Nanoseconds(0);
    cost.b += forward ? Nanoseconds(0) : time;
    cost.i += forward ? Nanoseconds(0) : time;
  };
  for (std::int32_t s = 0; s < shape.total_stages(); ++s) {
    const auto index = static_cast<std::size_t>(s);
    const auto send = [&](MessageCost& message, Stage to, bool forward) {
      wait(table.stages[index], forward, message.occupancy + message.latency + host);
      wait(table.stages[static_cast<std::size_t>(to.value)], forward, host);
      message = {};
    };
    if (!shape.is_last(Stage{s})) send(table.forward_messages[index], Stage{s + 1}, true);
    if (!shape.is_first(Stage{s})) send(table.backward_messages[index], Stage{s - 1}, false);
    for (SkipCost& skip : table.skips) {
      if (skip.route.from == Stage{s}) send(skip.forward, skip.route.to, true);
      if (skip.route.to == Stage{s}) send(skip.backward, skip.route.from, false);
    }
  }
}

Nanoseconds StageCosts::tie_reduction(const Tie& tie, const ScheduleShape& shape) const {
  std::vector<Rank> holders;
  for (const Stage stage : tie.holders) {
    const Rank rank = shape.rank_of(stage);
    if (std::ranges::find(holders, rank) == holders.end()) holders.push_back(rank);
  }
  return to_nanoseconds(tied_reduction(tie.parameters, plan_, cluster_, holders) * anchor_.step);
}

std::vector<Bytes> StageCosts::scratch(const ScheduleShape& shape,
                                       std::span<const StagePart> stages) const {
  std::vector<Bytes> most(static_cast<std::size_t>(shape.ranks), Bytes(0));
  for (std::int32_t s = 0; s < shape.total_stages(); ++s) {
    const LayerRange range = stages[static_cast<std::size_t>(s)].layers;
    if (range.size() == 0) continue;  // it lies within a run, whose layers are its neighbours'
    Bytes& of_rank = most[static_cast<std::size_t>(shape.rank_of(Stage{s}).value)];
    for (const PricedLayers& alike : prices_.from(range.first)) {
      if (alike.layers.first >= range.last) break;
      of_rank = std::max(of_rank, alike.price.time.scratch);
    }
  }
  return most;
}

Link stage_link(const Costs& costs, const Plan& plan, const Cluster& cluster, Rank from, Rank to) {
  const bool measured = costs.basis == Basis::measured || costs.basis == Basis::calibrated;
  return measured ? costs.link : pipeline_link(plan, cluster, from, to);
}

}  // namespace weir
