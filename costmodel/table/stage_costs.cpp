// Prices layers at a micro-batch size, and sums them into stages.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/table/stage_costs.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "costmodel/layers/kernels.hpp"
#include "costmodel/layers/layer_math.hpp"
#include "costmodel/table/backward_halves.hpp"
#include "costmodel/table/fixed_part.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

LayerTime scaled(LayerTime time, double by) {
  for (const ActionKind kind : kComputeKinds) time[kind] *= by;
  time.core *= by;
  return time;
}

LayerTime blend(const LayerTime& a, const LayerTime& b, double share) {
  const auto mix = [share](Seconds x, Seconds y) {
    return Seconds(std::max(0.0, x.count() + share * (y.count() - x.count())));
  };
  LayerTime mixed{
      {}, std::max(a.spread, b.spread), std::max(a.scratch, b.scratch), mix(a.core, b.core)};
  for (const ActionKind kind : kComputeKinds) mixed[kind] = mix(a[kind], b[kind]);
  return mixed;
}

// The update comes once a step.
LayerTime anchored(const LayerTime& time, const AnchorFactors& by) {
  LayerTime longer = scaled(time, by.compute);
  longer.optimizer = time.optimizer * by.step;
  return longer;
}

// Of two costs, each time for itself.
template <class Pick>
StageCost each(const StageCost& a, const StageCost& b, Pick pick) {
  StageCost picked;
  for (const ActionKind kind : kComputeKinds) picked[kind] = pick(a[kind], b[kind]);
  picked.reduce = pick(a.reduce, b.reduce);
  picked.rebuild = pick(a.rebuild, b.rebuild);
  return picked;
}

bool divides_backward(const Schedule& schedule) {
  return std::ranges::any_of(schedule.order, [](const auto& order) {
    return std::ranges::any_of(order, [](const Action& a) { return a.kind == ActionKind::I; });
  });
}

MessageCost scaled(const MessageCost& message, double by) {
  return {to_nanoseconds(to_seconds(message.occupancy) * by),
          to_nanoseconds(to_seconds(message.latency) * by)};
}

struct TimeAt {
  LayerTime time;
  bool inside = true;
};

// Linear between measured sizes; beyond them along the outermost pair, or in proportion where one
// size was measured.
TimeAt at_batch(const LayerCost& cost, int batch) {
  const auto& sizes = cost.by_batch;
  if (const auto exact = sizes.find(batch); exact != sizes.end()) return {exact->second, true};
  if (sizes.size() == 1) {
    const auto& [size, time] = *sizes.begin();
    const double scale = static_cast<double>(batch) / size;
    return {scaled(time, scale), false};
  }
  auto above = sizes.upper_bound(batch);
  const bool inside = above != sizes.begin() && above != sizes.end();
  if (above == sizes.end()) --above;
  if (above == sizes.begin()) ++above;
  const auto below = std::prev(above);
  const double share = static_cast<double>(batch - below->first) / (above->first - below->first);
  return {blend(below->second, above->second, share), inside};
}

// What selective re-materialisation does again, as a share of a block's products, where its time is
// known only as a whole: the scores, half of the core; a fused core is one kernel and done again
// whole.
double core_share(const Layer& layer, std::int64_t seq_length) {
  const auto* block = std::get_if<TransformerShape>(&layer.shape);
  if (block == nullptr) return 0;
  const double core = core_flops(*block, seq_length).forward.count();
  return (block->attention == AttentionKind::fused ? core : core / 2) /
         executed_flops(layer, seq_length).count();
}

}  // namespace

StageCosts::StageCosts(const Plan& plan, const LayerCosts& known, const Cluster& cluster)
    : plan_(plan),
      known_(known),
      cluster_(cluster),
      links_(parallel_links(plan, cluster)),
      anchor_(known.costs().factors()) {
  const auto layers = static_cast<int>(known.model().layers.size());
  const auto again = [&](int l) { return rebuilds(plan_.recompute, known_.part()->layer(l), l); };
  for (int l = 0; l < layers; ++l) {
    // Layers of a model are of few kinds: the price of the last one is this one's too.
    const bool alike = known_.like_the_last(l) && again(l) == again(l - 1);
    prices_.push_back(alike ? LayerPrice(prices_.back()) : price(l));
  }
  if (cluster.pools.empty()) return;
  placement_.emplace(plan, cluster);
  for (int kind = 1; kind < cluster.kinds(); ++kind) {
    const StageCosts& its =
        other_kinds_.emplace_back(plan, known.of_kind(kind), cluster.kind(kind));
    for (const std::string& warning : its.warnings_) warn(warning);
    device_over_host_ = std::min(device_over_host_, its.device_over_host_);
  }
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

StageCost StageCosts::own(const StagePart& stage) const {
  PerKind<Seconds> time, traffic;
  Seconds rebuild{0}, rebuild_traffic{0};
  // In layer order, so that equal stages have equal bits wherever they stand.
  for (int l = stage.layers.first; l < stage.layers.last; ++l) {
    const LayerPrice& layer = prices_[static_cast<std::size_t>(l)];
    time += layer.time;
    traffic += layer.traffic;
    if (layer.rebuild.count() == 0) continue;
    rebuild += layer.rebuild;
    rebuild_traffic += layer.traffic.r;
  }
  const StackTime& stack = cluster_.stack.time;
  const StepTraffic step = once_a_step(stage);
  const Seconds again = rebuild * corrected(ActionKind::R) + rebuild_traffic;
  const auto pass = [&](ActionKind kind) {
    const Seconds own = time[kind] * corrected(kind) + traffic[kind];
    return is_backward(kind) ? own + again : own;
  };
  StageCost cost;
  for (const ActionKind kind : kPassKinds) cost[kind] = to_nanoseconds(pass(kind));
  if (keeps_backward_whole(stage)) {
    cost.w = cost.b;
    cost.i = Nanoseconds(0);
  }
  cost.rebuild = to_nanoseconds(again);
  const int layers = stage.layers.size();
  cost.reduce = to_nanoseconds(stack.overlaps_reduction.value_or(plan_.overlap_grad_reduce)
                                   ? exposed_reduction(step.reduce, pass(ActionKind::B), layers)
                                   : step.reduce);
  cost.optimizer = to_nanoseconds(time.optimizer * corrected(ActionKind::OPTIMIZER) + step.gather);
  // What was timed there has it already.
  const double slowdown = stands_on_builtin(known_.costs().basis) ? cluster_.kind(0).slowdown : 1.0;
  return slowdown == 1 ? cost : slowed(cost, slowdown);
}

bool StageCosts::keeps_backward_whole(const StagePart& stage) const {
  return known_.costs().first_backward_in_w && stage.layers.first == 0;
}

double StageCosts::corrected(ActionKind kind) const {
  const Costs& costs = known_.costs();
  const double learnt = costs.correction[kind] * (plan_.pp == 1 ? costs.alone[kind] : 1.0);
  // The update knows no micro-batch.
  if (kind == ActionKind::OPTIMIZER) return learnt;
  return learnt * factor_at(costs.by_size, plan_.micro_batch_size);
}

StepTraffic StageCosts::once_a_step(const StagePart& stage) const {
  const Stack& stack = cluster_.stack;
  StepTraffic step =
      step_traffic(stage.parameters - stage.expert_parameters, plan_, links_.replicas, stack);
  if (stage.expert_parameters > 0) {
    const StepTraffic experts =
        expert_step_traffic(stage.expert_parameters, plan_, links_.expert_replicas, stack);
    step.reduce += experts.reduce;
    step.gather += experts.gather;
  }
  if (stack.time.overlaps_gather) step.gather = Seconds(0);
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
  for (int l = stage.layers.first; l < stage.layers.last; ++l) {
    PriceParts its;
    const LayerPrice layer = price(l, &its);
    for (const ActionKind kind : kPassKinds) {
      PerCause<Seconds>& of = sum[kind];
      const Seconds core = is_backward(kind) ? its.core : Seconds(0);
      const double factor = corrected(kind);
      of.work += (layer.time[kind] - its.replicas[kind] - core) * factor;
      of.rematerialised += core * factor;
      of.replicas += its.replicas[kind] * factor;
      of.tensor += its.tensor[kind];
      of.context += its.context[kind];
      of.experts += its.experts[kind];
      of.host += layer.traffic[kind] - its.tensor[kind] - its.context[kind] - its.experts[kind];
    }
    sum.optimizer.work += layer.time.optimizer * corrected(ActionKind::OPTIMIZER);
  }
  if (keeps_backward_whole(stage)) {
    sum.w = sum.b;
    sum.i = {};
  }
  sum.optimizer.replicas = once_a_step(stage).gather;
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

MessageCost StageCosts::message(const ScheduleShape& shape, Stage from, Stage to,
                                std::int64_t sample_bytes) const {
  const Bytes bytes(sample_bytes * plan_.micro_batch_size);
  const Rank rank = shape.rank_of(from), other = shape.rank_of(to);
  const Link link = placement_ ? placement_->link(rank, other)
                               : stage_link(known_.costs(), plan_, cluster_, rank, other);
  const Cluster& nodes = cluster_.kind(placement_ ? placement_->kinds(rank).front() : 0);
  return scaled(stage_message(bytes, plan_, link, nodes), anchor_.messages);
}

void StageCosts::price(CostTable& alone, const ScheduleShape& shape,
                       std::span<const StagePart> stages, Stage stage) const {
  const auto index = static_cast<std::size_t>(stage.value);
  const StagePart& its = stages[index];
  const Rank rank = shape.rank_of(stage);
  const auto straggler = cluster_.stragglers.find(rank.value);
  const StageCost cost = of(its, rank);
  alone.stages[index] =
      straggler == cluster_.stragglers.end() ? cost : slowed(cost, straggler->second);
  const auto to_neighbour = [&](ActionKind send, Stage to) {
    return message(shape, stage, to, its.message_bytes({stage, send}));
  };
  alone.forward_messages[index] =
      shape.is_last(stage) ? MessageCost{} : to_neighbour(ActionKind::SEND_F, stage + 1);
  alone.backward_messages[index] =
      shape.is_first(stage) ? MessageCost{} : to_neighbour(ActionKind::SEND_B, stage - 1);
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
      if (std::ranges::binary_search(tie.holders, Stage{s % shape.stages}))
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
    Bytes& of_rank = most[static_cast<std::size_t>(shape.rank_of(Stage{s}).value)];
    for (int l = range.first; l < range.last; ++l)
      of_rank = std::max(of_rank, prices_[static_cast<std::size_t>(l)].time.scratch);
  }
  return most;
}

// What ZeRO sends for a layer runs beside it: the longer of the two counts, and what they cost each
// other. A layer that is rebuilt has been gathered for its backward by then, which hides that much
// more of it.
StageCosts::LayerPrice StageCosts::price(int l, PriceParts* parts) {
  const Layer& layer = known_.model().layers[static_cast<std::size_t>(l)];
  LayerTime time = anchored(matched(l), anchor_);
  if (plan_.recompute.mode == RecomputeMode::selective) {
    if (time.core.count() == 0) time.core = time.f * core_share(layer, plan_.seq_length);
    time.i += time.core;
    time.b += time.core;
    if (parts != nullptr) parts->core = time.core;
  }
  const bool rebuilt = rebuilds(plan_.recompute, known_.part()->layer(l), l);
  const Seconds rebuild = rebuilt ? time.r : Seconds(0);
  if (plan_.replicas() > 1) {
    const LayerPart& part = known_.part()->layer(l);
    const std::int64_t experts = part.expert_parameters, others = part.parameters - experts;
    if (plan_.zero >= 1 && experts == 0) {
      time.optimizer /= plan_.replicas();
    } else if (plan_.zero >= 1) {
      // Experts have fewer copies to share their update among.
      const double share = static_cast<double>(others) / plan_.replicas() +
                           static_cast<double>(experts) / plan_.expert_replicas();
      time.optimizer *= share / static_cast<double>(part.parameters);
    }
    PerKind<Seconds> replicas = replica_traffic(others, plan_, links_.replicas, cluster_.stack);
    if (experts > 0) {
      replicas += expert_replica_traffic(experts, plan_, links_.expert_replicas, cluster_.stack);
    }
    for (const ActionKind kind : kPassKinds) {
      const Seconds beside = replicas[kind] * anchor_.messages;
      const Seconds own = time[kind];
      const Seconds sent = std::max(Seconds(0), is_backward(kind) ? beside - rebuild : beside);
      time[kind] = std::max(own, sent) + std::min(own, sent) * cluster_.stack.time.overlap_slowdown;
      if (parts != nullptr) parts->replicas[kind] = time[kind] - own;
    }
  }
  const StackTime& stack = cluster_.stack.time;
  // A GPU's streams gather beside products; Weir's executor on a core does not.
  const WeightGathers gathers =
      cluster_.kind(0).device.multiprocessors == 0 && cluster_.stack.own_tensors
          ? WeightGathers::counted
          : WeightGathers::hidden;
  const PerKind<Seconds> tensor = tensor_traffic(layer, plan_, links_.tensor, stack, gathers);
  const PerKind<Seconds> context = context_traffic(layer, plan_, links_.context);
  const PerKind<Seconds> experts = expert_traffic(layer, plan_, links_.experts, stack);
  PerKind<Seconds> traffic = tensor;
  traffic += context;
  traffic += experts;
  const PerKind<Seconds> host = collective_host_time(layer, plan_, cluster_);
  for (const ActionKind kind : kPassKinds) {
    traffic[kind] *= anchor_.messages;
    if (parts != nullptr) {
      parts->tensor[kind] = tensor[kind] * anchor_.messages;
      parts->context[kind] = context[kind] * anchor_.messages;
      parts->experts[kind] = experts[kind] * anchor_.messages;
    }
    // A host that is busy with the calls longer than the device with the work keeps it waiting; one
    // that waits for each kernel, for as long as it is busy.
    const Seconds busy = host[kind] * anchor_.compute;
    if (busy.count() > 0)
      device_over_host_ = std::min(device_over_host_, (time[kind] + traffic[kind]) / busy);
    traffic[kind] = cluster_.stack.time.blocking_launches
                        ? traffic[kind] + busy
                        : std::max(traffic[kind], busy - time[kind]);
  }
  return {time, traffic, rebuild};
}

LayerTime StageCosts::matched(int l) {
  const Layer& layer = known_.model().layers[static_cast<std::size_t>(l)];
  const int batch = plan_.micro_batch_size;
  if (const auto* timed = std::get_if<TimedShape>(&layer.shape)) {
    const double b = batch;
    return {{.f = timed->forward * b,
             .i = timed->backward_input * b,
             .w = timed->backward_weight * b,
             .b = (timed->backward_input + timed->backward_weight) * b,
             .r = timed->forward * b}};
  }
  const auto& [cost, divided] = known_.match(l);
  const Split split = plan_.split();
  if (divided) {
    warn(fmt::format("tp = {}, cp = {}{}: times of whole layers, divided", split.tp, split.cp,
                     split.slices > 1 ? fmt::format(", slices = {}", split.slices) : ""));
  }
  const TimeAt at = at_batch(*cost, batch);
  if (!at.inside)
    warn(fmt::format("{} at micro-batch size {} is extrapolated", kind_name(layer), batch));
  LayerTime whole = at.time;
  if (const double fixed = known_.costs().fixed; fixed != 1) {
    const PerKind<Seconds> part = fixed_part(*cost);
    for (const ActionKind kind : kPassKinds) whole[kind] += part[kind] * (fixed - 1);
  }
  LayerTime time = scaled(whole, divided ? 1.0 / (split.tp * split.cp * split.slices) : 1);
  if (!halves_known(*cost)) {
    // No schedule that divides the backward is priced by these (unknown_halves); for what adds the
    // two up.
    time.i = time.b;
    time.w = Seconds(0);
  }
  time.r = time.f;
  time.optimizer = cost->optimizer / (divided ? split.tp : 1.0);  // weights: by tp alone
  return time;
}

void StageCosts::warn(std::string warning) {
  if (std::ranges::find(warnings_, warning) == warnings_.end())
    warnings_.push_back(std::move(warning));
}

Link stage_link(const Costs& costs, const Plan& plan, const Cluster& cluster, Rank from, Rank to) {
  const bool measured = costs.basis == Basis::measured || costs.basis == Basis::calibrated;
  return measured ? costs.link : pipeline_link(plan, cluster, from, to);
}

CostTableResult cost_table(const ResolvedPlan& resolved, const LayerCosts& known,
                           const Cluster& cluster) {
  require_stages(resolved, cluster.stack);
  if (divides_backward(resolved.schedule)) {
    if (const auto reason = unknown_halves(known))
      throw InputError(known.costs().file, "layers", *reason + ", which the plan's schedule needs");
  }
  const StageCosts costs(resolved.plan, known, cluster);
  const ScheduleShape& shape = resolved.schedule.shape;
  return {costs.table(shape, resolved.stages, resolved.ties), costs.scratch(shape, resolved.stages),
          costs.warnings().empty(), costs.warnings(), costs.device_over_host()};
}

CostTableResult cost_table(const ResolvedPlan& resolved, const Costs& costs,
                           const Cluster& cluster) {
  return cost_table(resolved, LayerCosts(resolved, costs, cluster.stack), cluster);
}

}  // namespace weir
