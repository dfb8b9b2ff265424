// Matches layers to times at a micro-batch size and adds what they send.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/table/layer_prices.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "costmodel/layers/fp8_casts.hpp"
#include "costmodel/layers/kernels.hpp"
#include "costmodel/layers/layer_math.hpp"
#include "costmodel/layers/orthogonal.hpp"
#include "costmodel/links/collectives.hpp"
#include "costmodel/links/offload.hpp"
#include "costmodel/table/backward_halves.hpp"
#include "costmodel/table/device_kind.hpp"
#include "costmodel/table/fixed_part.hpp"
#include "costmodel/table/rebuilt_modules.hpp"

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
  // Beyond the measured sizes: the outermost two give the line.
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

// What of a pass grows with the square of a sequence's length, by FLOPs: attention's core, but
// where a window leaves each query as many keys.
double squared_share(const Layer& layer, std::int64_t seq_length) {
  const auto* block = std::get_if<TransformerShape>(&layer.shape);
  if (block == nullptr || (block->window > 0 && block->window < seq_length)) return 0;
  return core_flops(*block, seq_length).forward.count() / executed_flops(layer, seq_length).count();
}

// What selective re-materialisation does again in a block's backward.
Seconds done_again(const Layer& layer, const Plan& plan, const LayerTime& time,
                   const Cluster& cluster) {
  const Seconds others = rebuilt_time(layer, plan, time.f, cluster);
  if (!plan.recompute.modules.meets(BlockModule::core_attn)) return others;
  const bool known = time.core.count() > 0;
  return others + (known ? time.core : time.f * core_share(layer, plan.seq_length));
}

// The host's time for a block, whatever the device has to do: what its modules and hooks take, or
// what its collectives do, which is counted with the kernels between them. A W of its own is a few
// products that hooks have queued.
PerKind<Seconds> host_time(const Layer& layer, const Plan& plan, const Cluster& cluster) {
  const StackTime& stack = cluster.stack.time;
  // Whole steps are replayed from CUDA graphs.
  if (stack.launch && stack.launch->count() == 0) return {};
  if (plan.cuda_graphs.whole_step()) return {};
  PerKind<Seconds> host = collective_host_time(layer, plan, cluster);
  const auto* block = std::get_if<TransformerShape>(&layer.shape);
  if (block == nullptr) return host;
  const Seconds none(0);
  const bool experts = block->experts > 1;
  const Seconds forward =
      std::max(stack.block_host_forward, experts ? stack.expert_host_forward : none);
  const Seconds backward =
      std::max(stack.block_host_backward, experts ? stack.expert_host_backward : none);
  for (const ActionKind kind : {ActionKind::F, ActionKind::R})
    host[kind] = std::max(host[kind], forward);
  for (const ActionKind kind : {ActionKind::B, ActionKind::I})
    host[kind] = std::max(host[kind], backward);
  return host;
}

// Of a block's host time, the share of its kernels that the host launches itself: graphs are
// replayed with the modules, hooks and collectives that were recorded in them.
PerKind<double> by_the_host(const std::optional<LayerKernels>& kernels) {
  PerKind<double> share;
  for (const ActionKind kind : kPassKinds) share[kind] = 1;
  if (!kernels) return share;
  const auto of = [](const PassKernels& first, const PassKernels& second = {}) {
    const double all = first.kernels + second.kernels;
    return all > 0 ? std::min(1.0, (first.launched + second.launched) / all) : 1;
  };
  share.f = share.r = of(kernels->f);
  share.i = of(kernels->i);
  share.w = of(kernels->w);
  share.b = of(kernels->i, kernels->w);
  return share;
}

// What a rebuilt block leaves out where it runs to the last tensor that its backward needs: its
// MLP's last product, as a share of its products. What is normalised behind it is needed.
double left_out_share(const Layer& layer, std::int64_t seq_length) {
  const auto* block = std::get_if<TransformerShape>(&layer.shape);
  if (block == nullptr || block->post_norms || !block->pre_norm) return 0;
  const std::int64_t visited = block->experts > 1 ? block->experts_per_token : 1;
  const auto width = static_cast<double>(visited * block->ffn + block->shared_ffn);
  const double product = 2.0 * width * static_cast<double>(block->hidden * seq_length);
  return product / executed_flops(layer, seq_length).count();
}

// Without those that a layer has not where nothing before it, nor in it, is trained.
PerKind<Seconds> of_passes(const Layer& layer, PerKind<Seconds> passes) {
  if (!layer.treated.backward) passes.i = passes.w = passes.b = Seconds(0);
  return passes;
}

// What muon does beside: gathers each matrix's momentum, fp32, among the devices of tp, and makes
// it orthogonal.
Seconds orthogonalising(const Layer& layer, const Plan& plan, const ParallelLinks& links,
                        const Cluster& cluster) {
  if (plan.optimizer.kind != OptimizerKind::muon || layer.treated.frozen) return Seconds(0);
  Seconds all(0);
  for (const MatmulShape& matrix : orthogonalised(layer, plan)) {
    all += orthogonal_time(matrix, plan.optimizer.newton_schulz, cluster.kind(0).device);
    const Bytes momentum(matrix.m * matrix.n * matrix.batch * 4);
    if (plan.tp > 1) all += ring_all_gather(momentum, plan.tp, links.tensor);
  }
  return all;
}

// Each replica updates its part; of muon's matrices whole ones. Experts have fewer copies to share
// theirs among.
Seconds shared_update(Seconds update, const LayerPart& part, const Plan& plan) {
  const std::int64_t experts = part.trained_expert_parameters;
  if (plan.zero == 0) return update;
  if (experts == 0) return update / static_cast<double>(plan.sharers());
  const auto others = static_cast<double>(part.trained_parameters - experts);
  const double share =
      others / plan.sharers() + static_cast<double>(experts) / plan.expert_sharers();
  return update * (share / static_cast<double>(part.trained_parameters));
}

// Of products in 8 bits: weights are cast once a step, whole on each device, trained or not (a
// step's first micro-batch is told to all modules: NVIDIA/Megatron-LM@d98e8a64ddf3:megatron/core/
// transformer/module.py:129-132).
Seconds weights_cast(const Layer& layer, const LayerPart& part, const Plan& plan,
                     const Cluster& cluster) {
  const Device& device = cluster.kind(0).device;
  const Fp8Recipe recipe = products_recipe(layer, cluster.stack, device);
  if (recipe == Fp8Recipe::none || !device.kernels || part.products == 0) return Seconds(0);
  Fp8Casts casts = fp8_casts(recipe, device);
  // Columns are for the gradient of what the product reads.
  if (!layer.treated.backward) casts.copies = 1;
  const double bytes =
      weight_cast_bytes(casts, plan.fp8_parameters) * static_cast<double>(part.products);
  return stream_time(Bytes(static_cast<std::int64_t>(bytes)), device);
}

PerKind<Seconds> sent_by_replicas(const LayerPart& part, const Plan& plan,
                                  const ParallelLinks& links, const Stack& stack) {
  const std::int64_t trained = part.trained_expert_parameters;
  const HeldNumbers experts{part.expert_parameters, trained, trained},
      others{part.parameters - experts.held, part.trained_parameters - trained,
             part.trained_products};
  PerKind<Seconds> sent = replica_traffic(others, plan, links.replicas, stack);
  if (experts.held > 0) sent += expert_replica_traffic(experts, plan, links.expert_replicas, stack);
  return sent;
}

// Of blocks that are rebuilt at once all but the last two are gathered for their own backward once
// more: the share of a whole chunk.
double gathered_again(const Recompute& recompute) {
  return recompute.at_a_time > 2 ? 1 - 2.0 / recompute.at_a_time : 0;
}

}  // namespace

LayerPrices::LayerPrices(const Plan& plan, const LayerCosts& known, const Cluster& cluster)
    : plan_(plan),
      known_(known),
      cluster_(cluster),
      links_(parallel_links(plan, cluster)),
      row_(mean_row(plan.lengths, plan.seq_length, plan.micro_batch_size)),
      anchor_(known.costs().factors()) {
  // Layers of a model are of few kinds: the price of the first of a run is that of all.
  for (const LayerRange& run : known.runs(plan.recompute))
    prices_.push_back({run, price(run.first)});
}

std::span<const PricedLayers> LayerPrices::from(int layer) const {
  const auto run = std::ranges::upper_bound(
      prices_, layer, {}, [](const PricedLayers& priced) { return priced.layers.last; });
  return {run, prices_.end()};
}

PriceParts LayerPrices::parts(int layer) {
  PriceParts parts;
  static_cast<void>(price(layer, &parts));
  return parts;
}

// What ZeRO sends for a layer runs beside it: the longer of the two counts, and what they cost each
// other. A layer that is rebuilt has been gathered for its backward by then, which hides that much
// more of it.
void LayerPrices::add_replicas(int l, bool rebuilt, LayerTime& time, PriceParts* parts) const {
  const Layer& layer = known_.model().layers[static_cast<std::size_t>(l)];
  const Seconds rebuild = rebuilt ? time.r : Seconds(0);
  const LayerPart& part = known_.part()->layer(l);
  time.optimizer = shared_update(time.optimizer, part, plan_);
  const PerKind<Seconds> replicas =
      of_passes(layer, sent_by_replicas(part, plan_, links_, cluster_.stack));
  for (const ActionKind kind : kPassKinds) {
    const bool again = rebuilt && is_backward(kind);
    const Seconds more = again ? replicas.f * gathered_again(plan_.recompute) : Seconds(0);
    const Seconds beside = (replicas[kind] + more) * anchor_.messages;
    const Seconds own = time[kind];
    const Seconds sent = std::max(Seconds(0), is_backward(kind) ? beside - rebuild : beside);
    time[kind] = std::max(own, sent) + std::min(own, sent) * cluster_.stack.time.overlap_slowdown;
    if (parts != nullptr) parts->replicas[kind] = time[kind] - own;
  }
}

// A layer's kernels, what runs beside them and what is exchanged for it.
LayerPrice LayerPrices::price(int l, PriceParts* parts) {
  const Layer& layer = known_.model().layers[static_cast<std::size_t>(l)];
  LayerTime time = matched(l);
  LayerPrice priced;
  const bool counted = !plan_.cuda_graphs.none() || plan_.lengths.known();
  const std::optional<LayerKernels> kernels = counted ? kernels_of(l) : std::nullopt;
  if (counted) lessen(l, kernels, time, priced);
  time = anchored(time, anchor_);
  const ModuleSet modules = plan_.recompute.modules;
  const bool selective = plan_.recompute.mode == RecomputeMode::selective && layer.treated.backward;
  if (selective) {
    time.core = done_again(layer, plan_, time, cluster_);
    // The core is rebuilt before the pass that reads it: I, or the whole B.
    time.i += time.core;
    time.b += time.core;
    if (parts != nullptr) parts->core = time.core;
  }
  if (cluster_.stack.time.rebuild_stops_early)
    time.r -= time.f * left_out_share(layer, plan_.seq_length);
  const bool rebuilt = rebuilds(plan_.recompute, known_.part()->layer(l), l);
  const Seconds rebuild = rebuilt ? time.r : Seconds(0);
  time.optimizer += orthogonalising(layer, plan_, links_, cluster_) * anchor_.step;
  time.optimizer *= 1 - plan_.offload_optimizer;  // the rest is the host's (StageCosts)
  if (plan_.replicas() > 1) add_replicas(l, rebuilt, time, parts);
  // What was measured has its casts in it.
  if (stands_on_builtin(known_.costs().basis))
    time.optimizer += weights_cast(layer, known_.part()->layer(l), plan_, cluster_) * anchor_.step;
  priced.time = time;
  priced.rebuild = rebuild;
  priced.traffic = exchanged(layer, time, selective && modules.meets(BlockModule::moe), parts);
  wait_for_host(layer, kernels, rebuilt, priced);
  wait_for_copies(l, rebuilt, priced);
  return priced;
}

// What the host keeps for the backward travels beside a pass, and is waited for where it takes
// longer than that; or all of it, where software copies as it computes.
void LayerPrices::wait_for_copies(int l, bool rebuilt, LayerPrice& priced) const {
  if (plan_.offload_activations == 0) return;
  const Cluster& nodes = cluster_.kind(0);
  const LayerPart& part = known_.part()->layer(l);
  const Seconds copy = offloading_time(offloaded_bytes(part, plan_, rebuilt), nodes);
  const auto wait = [&](ActionKind kind, Seconds rebuild) {
    const Seconds work = priced.time[kind] + priced.traffic[kind] + rebuild;
    const Seconds beside = cluster_.stack.time.blocking_offload ? Seconds(0) : work;
    if (copy > beside) priced.traffic[kind] += copy - beside;
  };
  wait(ActionKind::F, Seconds(0));
  if (!part.backward) return;
  wait(ActionKind::I, priced.rebuild);
  wait(ActionKind::B, priced.rebuild);
}

// What a layer exchanges within its stage, by pass; `time` is that of its own kernels.
PerKind<Seconds> LayerPrices::exchanged(const Layer& layer, const LayerTime& time,
                                        bool experts_rebuilt, PriceParts* parts) const {
  const StackTime& stack = cluster_.stack.time;
  const Device& device = cluster_.kind(0).device;
  // A GPU's streams gather beside products; Weir's executor on a core does not.
  const WeightGathers gathers = !is_gpu(device) && cluster_.stack.own_tensors
                                    ? WeightGathers::counted
                                    : WeightGathers::hidden;
  PerKind<Seconds> tensor = tensor_traffic(layer, plan_, links_.tensor, stack, gathers,
                                           products_recipe(layer, cluster_.stack, device));
  // A whole backward's sums run beside its own products; a W that is a pass of its own comes later.
  const Seconds sums =
      layer.treated.frozen
          ? Seconds(0)
          : std::min(sums_beside_weights(layer, plan_, links_.tensor, stack), time.w);
  tensor.b -= sums * (1 - stack.overlap_slowdown);
  const PerKind<Seconds> context = of_passes(layer, context_traffic(layer, plan_, links_.context));
  PerKind<Seconds> experts = of_passes(layer, expert_traffic(layer, plan_, links_.experts, stack));
  // Experts that are rebuilt have their tokens sent to them, and back, once more.
  if (experts_rebuilt) {
    for (const ActionKind kind : {ActionKind::I, ActionKind::B}) experts[kind] += experts.f;
  }
  PerKind<Seconds> traffic = tensor;
  traffic += context;
  traffic += experts;
  const double messages = anchor_.messages * row_.tokens;
  for (const ActionKind kind : kPassKinds) {
    traffic[kind] *= messages;
    if (parts == nullptr) continue;
    parts->tensor[kind] = tensor[kind] * messages;
    parts->context[kind] = context[kind] * messages;
    parts->experts[kind] = experts[kind] * messages;
  }
  return traffic;
}

// A host that is busy with the calls longer than the device with the work keeps it waiting; one
// that waits for each kernel, for as long as it is busy.
void LayerPrices::wait_for_host(const Layer& layer, const std::optional<LayerKernels>& kernels,
                                bool rebuilt, LayerPrice& priced) {
  const LayerTime& time = priced.time;
  PerKind<Seconds>& traffic = priced.traffic;
  const PerKind<Seconds> host = of_passes(layer, host_time(layer, plan_, cluster_));
  const PerKind<double> by_host = by_the_host(plan_.cuda_graphs.none() ? std::nullopt : kernels);
  for (const ActionKind kind : kPassKinds) {
    const Seconds busy = host[kind] * (by_host[kind] * anchor_.compute);
    // Of all layers the one where the host is least ahead.
    if (busy.count() > 0)
      device_over_host_ = std::min(device_over_host_, (time[kind] + traffic[kind]) / busy);
    // Of a layer that is rebuilt its own time counts, not what is gathered beside it.
    const Seconds counted = kind == ActionKind::R && rebuilt ? priced.rebuild : time[kind];
    traffic[kind] = cluster_.stack.time.blocking_launches ? traffic[kind] + busy
                                                          : std::max(traffic[kind], busy - counted);
  }
}

std::optional<LayerKernels> LayerPrices::kernels_of(int l) const {
  const Layer& layer = known_.model().layers[static_cast<std::size_t>(l)];
  const Device& device = cluster_.device;
  const bool counted = std::holds_alternative<EmbeddingShape>(layer.shape) ||
                       std::holds_alternative<TransformerShape>(layer.shape) ||
                       std::holds_alternative<NormShape>(layer.shape) ||
                       std::holds_alternative<HeadShape>(layer.shape);
  // What was measured is known as a whole, and as it was launched.
  if (!counted || !device.kernels || !stands_on_builtin(known_.costs().basis)) return std::nullopt;
  return layer_kernels(layer, plan_, device, cluster_.stack,
                       known_.part()->layer(l).trained_parameters);
}

void LayerPrices::lessen(int l, const std::optional<LayerKernels>& kernels, LayerTime& time,
                         LayerPrice& price) const {
  const Layer& layer = known_.model().layers[static_cast<std::size_t>(l)];
  const auto* block = std::get_if<TransformerShape>(&layer.shape);
  // A fused core leaves out what lies between sequences; masked scores are made all the same.
  const bool leaves_out = plan_.lengths.rows == RowsOf::longest ||
                          (block != nullptr && block->attention == AttentionKind::fused);
  const double of_squares = leaves_out ? row_.squared : row_.tokens;
  const auto pass = [&](Seconds& whole, const PassKernels* known, double squared_share,
                        MicrobatchTime& varying) {
    const Seconds before = whole;
    const Seconds squared = known != nullptr ? known->squared : whole * squared_share;
    const Seconds device = known != nullptr ? known->device : whole;
    const Seconds less = (device - squared) * row_.tokens + squared * of_squares;
    if (known == nullptr) {
      whole = less;
    } else {
      const auto takes = [&](Seconds on_device, double launches) {
        return launched_time(on_device, launches, cluster_.device, cluster_.stack.time);
      };
      whole += takes(less, known->launched) - takes(device, known->kernels);
    }
    varying.linear += (device - squared) * anchor_.compute;
    varying.squared += (leaves_out ? squared : Seconds(0)) * anchor_.compute;
    return whole - before;
  };
  // Known as a whole: attention's share by FLOPs. The backward does each of its halves again, all
  // of it in I.
  const double share = kernels ? 0 : squared_share(layer, plan_.seq_length);
  const Seconds backward = time.i + time.w;
  const double of_i = time.i.count() > 0 ? std::min(1.0, share * (backward / time.i)) : 0;
  auto& [f, b, r] = price.varying;
  pass(time.f, kernels ? &kernels->f : nullptr, share, f);
  time.r = time.f;
  time.b += pass(time.i, kernels ? &kernels->i : nullptr, of_i, b);
  time.b += pass(time.w, kernels ? &kernels->w : nullptr, 0, b);
  if (plan_.lengths.known() && leaves_out) time.core *= row_.squared;
  if (rebuilds(plan_.recompute, known_.part()->layer(l), l)) r = f;
}

LayerTime LayerPrices::matched(int l) {
  const Layer& layer = known_.model().layers[static_cast<std::size_t>(l)];
  const int batch = plan_.micro_batch_size;
  if (const auto* timed = std::get_if<TimedShape>(&layer.shape)) {
    const double b = batch;
    const Seconds none(0);
    const Seconds i = layer.treated.backward ? timed->backward_input * b : none,
                  w = layer.treated.trains() ? timed->backward_weight * b : none;
    return {{.f = timed->forward * b, .i = i, .w = w, .b = i + w, .r = timed->forward * b}};
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

void LayerPrices::warn(std::string warning) {
  if (std::ranges::find(warnings_, warning) == warnings_.end())
    warnings_.push_back(std::move(warning));
}

}  // namespace weir
