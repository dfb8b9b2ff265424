// Sums layers to stages: looks each layer up, interpolates to the micro-batch size, adds what
// parallel degrees send, and corrects by what runs taught.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/table/stage_sums.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "costmodel/layers/layer_math.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

LayerTime scaled(const LayerTime& t, double by) {
  return {t.f * by, t.i * by, t.w * by, t.b * by, t.spread, t.scratch, t.core * by};
}

LayerTime blend(const LayerTime& a, const LayerTime& b, double share) {
  const auto mix = [share](Seconds x, Seconds y) {
    return Seconds(std::max(0.0, x.count() + share * (y.count() - x.count())));
  };
  return {mix(a.f, b.f),
          mix(a.i, b.i),
          mix(a.w, b.w),
          mix(a.b, b.b),
          std::max(a.spread, b.spread),
          std::max(a.scratch, b.scratch),
          mix(a.core, b.core)};
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

void warn(CostTableResult& result, std::string warning) {
  result.inside_range = false;
  if (std::find(result.warnings.begin(), result.warnings.end(), warning) == result.warnings.end()) {
    result.warnings.push_back(std::move(warning));
  }
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

StageSums::StageSums(const ResolvedPlan& loaded, const Costs& costs, const Cluster& cluster)
    : loaded_(loaded), costs_(costs), links_(parallel_links(loaded.plan, cluster)) {
  for (const LayerCost& cost : costs.layers) known_.emplace(cost.key, &cost);
}

StageCost StageSums::of(LayerRange range, CostTableResult& result) {
  const Plan& plan = loaded_.plan;
  Sum sum;
  scratch = Bytes(0);
  for (int l = range.first; l < range.last; ++l) add_layer(sum, l, result);
  const Correction& c = costs_.correction;
  const Correction alone = plan.pp == 1 ? costs_.alone : Correction{};
  const double size = factor_at(costs_.by_size, plan.micro_batch_size);
  const StepTraffic step = step_traffic(sum.parameters, plan, links_.replicas);
  const Seconds b = sum.time.b * (c.b * alone.b * size) + sum.traffic.i;
  StageCost cost;
  cost.f = to_nanoseconds(sum.time.f * (c.f * alone.f * size) + sum.traffic.f);
  cost.i = to_nanoseconds(sum.time.i * (c.i * alone.i * size) + sum.traffic.i);
  cost.w = to_nanoseconds(sum.time.w * (c.w * alone.w * size));
  cost.b = to_nanoseconds(b);
  cost.r = to_nanoseconds(sum.r * (c.r * alone.r * size) + sum.traffic.f);
  cost.reduce = to_nanoseconds(plan.overlap_grad_reduce
                                   ? exposed_reduction(step.reduce, b, range.last - range.first)
                                   : step.reduce);
  cost.optimizer = to_nanoseconds(sum.optimizer * c.optimizer * alone.optimizer + step.gather);
  return cost;
}

// What ZeRO sends for a layer runs beside it: the longer of the two counts.
void StageSums::add_layer(Sum& sum, int l, CostTableResult& result) {
  const Plan& plan = loaded_.plan;
  const Layer& layer = loaded_.model.layers[static_cast<std::size_t>(l)];
  Seconds optimizer{0};
  LayerTime time = layer_time(layer, optimizer, result);
  if (plan.recompute.mode == RecomputeMode::selective) {
    if (time.core.count() == 0) time.core = time.f * core_share(layer, plan.seq_length);
    time.i += time.core;
    time.b += time.core;
  }
  if (plan.replicas() > 1) {
    const std::int64_t parameters = loaded_.part->layer(l).parameters;
    sum.parameters += parameters;
    if (plan.zero >= 1) optimizer /= plan.replicas();
    const ReplicaTraffic replicas = replica_traffic(parameters, plan, links_.replicas);
    time.f = std::max(time.f, replicas.f);
    time.i = std::max(time.i, replicas.i);
    time.w = std::max(time.w, replicas.w);
    time.b = std::max(time.b, replicas.i + replicas.w);
  }
  const LayerTraffic tensor = tensor_traffic(layer, plan, links_.tensor);
  const LayerTraffic context = context_traffic(layer, plan, links_.context);
  sum.time.f += time.f;
  sum.time.i += time.i;
  sum.time.w += time.w;
  sum.time.b += time.b;
  sum.r += time.f;
  sum.traffic.f += tensor.f + context.f;
  sum.traffic.i += tensor.i + context.i;
  sum.optimizer += optimizer;
}

const LayerCost* StageSums::find(const std::string& key) const {
  const auto found = known_.find(key);
  return found == known_.end() ? nullptr : found->second;
}

LayerTime StageSums::layer_time(const Layer& layer, Seconds& optimizer, CostTableResult& result) {
  const Plan& plan = loaded_.plan;
  const int batch = plan.micro_batch_size;
  if (const auto* timed = std::get_if<TimedShape>(&layer.shape)) {
    const double b = batch;
    return {timed->forward * b, timed->backward_input * b, timed->backward_weight * b,
            (timed->backward_input + timed->backward_weight) * b, 0};
  }
  const Split split = plan.split();
  const LayerCost* cost = find(layer_key(layer, plan.seq_length, plan.dtype, split));
  bool divided = false;
  if (cost == nullptr && split != Split{}) {
    cost = find(layer_key(layer, plan.seq_length, plan.dtype));
    divided = true;
    if (cost != nullptr) {
      warn(result,
           fmt::format("tp = {}, cp = {}: times of whole layers, divided", split.tp, split.cp));
    }
  }
  if (cost == nullptr) {
    throw InputError("costs", "layers",
                     fmt::format("nothing is known of layer {} ({})", layer.name,
                                 layer_key(layer, plan.seq_length, plan.dtype)));
  }
  optimizer = cost->optimizer / (divided ? split.tp : 1.0);  // weights are divided by tp alone
  const TimeAt time = at_batch(*cost, batch);
  scratch = std::max(scratch, time.time.scratch);
  if (!time.inside)
    warn(result, fmt::format("{} at micro-batch size {} is extrapolated", kind_name(layer), batch));
  return scaled(time.time, divided ? 1.0 / (split.tp * split.cp) : 1);
}

}  // namespace weir
