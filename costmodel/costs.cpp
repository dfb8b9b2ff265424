// From costs of layers to costs of stages.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/costs.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "costmodel/layer_math.hpp"
#include "plan/error.hpp"
#include "plan/layer_tensors.hpp"

namespace weir {
namespace {

struct Key {
  std::string operator()(const EmbeddingShape& e) const {
    const std::string patches = e.patch > 0 ? fmt::format(" patch={}", e.patch) : "";
    return fmt::format("embedding vocabulary={} hidden={} positions={} types={} norm={} dropout={}{}", e.vocabulary,
                       e.hidden, e.positions, e.token_types, e.norm, e.dropout, patches);
  }
  std::string operator()(const TransformerShape& b) const {
    return fmt::format(
        "transformer hidden={} heads={} kv_heads={} head_dim={} ffn={} experts={}/{} activation={} norm={} pre_norm={} "
        "gated={} bias={}{}{} causal={} rotary={} parallel={} cross={} relative={} dropout={}/{}",
        b.hidden, b.heads, b.kv_heads, b.head_dim, b.ffn, b.experts_per_token, b.experts,
        static_cast<int>(b.activation), static_cast<int>(b.norm), b.pre_norm, b.gated, static_cast<int>(b.qkv_bias),
        static_cast<int>(b.output_bias), static_cast<int>(b.mlp_bias), b.causal, b.rotary, b.parallel,
        b.cross_attention, b.relative_buckets, b.attention_dropout, b.residual_dropout);
  }
  std::string operator()(const NormShape& n) const {
    return fmt::format("norm hidden={} kind={}", n.hidden, static_cast<int>(n.kind));
  }
  std::string operator()(const HeadShape& h) const {
    const std::string dense = h.dense == HeadDense::none ? "" : fmt::format(" dense={}", static_cast<int>(h.dense));
    return fmt::format("head hidden={} vocabulary={} bias={} pooled={}{}", h.hidden, h.vocabulary, h.bias, h.pooled,
                       dense);
  }
  std::string operator()(const TimedShape& t) const {
    return fmt::format("timed f={} i={} w={}", t.forward.count(), t.backward_input.count(), t.backward_weight.count());
  }
  std::string operator()(const SizedShape& s) const {
    return fmt::format("sized flops={} parameters={} input={}{} kept={} output={}", s.forward.count(), s.parameters,
                       s.input, s.keeps_input ? " kept" : "", s.kept, s.output);
  }
};

LayerTime blend(const LayerTime& a, const LayerTime& b, double share) {
  const auto mix = [share](Seconds x, Seconds y) {
    return Seconds(std::max(0.0, x.count() + share * (y.count() - x.count())));
  };
  return {mix(a.f, b.f),
          mix(a.i, b.i),
          mix(a.w, b.w),
          mix(a.b, b.b),
          std::max(a.spread, b.spread),
          std::max(a.scratch, b.scratch)};
}

struct TimeAt {
  LayerTime time;
  bool inside = true;
};

// Linear between measured sizes; beyond them along the outermost pair, or in proportion where one size was measured.
TimeAt at_batch(const LayerCost& cost, int batch) {
  const auto& sizes = cost.by_batch;
  if (const auto exact = sizes.find(batch); exact != sizes.end()) return {exact->second, true};
  if (sizes.size() == 1) {
    const auto& [size, time] = *sizes.begin();
    const double scale = static_cast<double>(batch) / size;
    return {{time.f * scale, time.i * scale, time.w * scale, time.b * scale, time.spread, time.scratch}, false};
  }
  auto above = sizes.upper_bound(batch);
  const bool inside = above != sizes.begin() && above != sizes.end();
  if (above == sizes.end()) --above;
  if (above == sizes.begin()) ++above;
  const auto below = std::prev(above);
  const double share = static_cast<double>(batch - below->first) / (above->first - below->first);
  return {blend(below->second, above->second, share), inside};
}

class StageSums {
 public:
  StageSums(const LoadedPlan& loaded, const Costs& costs) : loaded_(loaded), costs_(costs) {
    for (const LayerCost& cost : costs.layers) known_.emplace(cost.key, &cost);
  }

  StageCost of(LayerRange range, CostTableResult& result) {
    LayerTime sum;
    Seconds optimizer{0};
    scratch = Bytes(0);
    for (int l = range.first; l < range.last; ++l) {
      const LayerTime time = layer_time(l, optimizer, result);
      sum.f += time.f;
      sum.i += time.i;
      sum.w += time.w;
      sum.b += time.b;
    }
    const Correction& c = costs_.correction;
    const Correction alone = loaded_.plan.pp == 1 ? costs_.alone : Correction{};
    StageCost cost;
    cost.f = to_nanoseconds(sum.f * c.f * alone.f);
    cost.i = to_nanoseconds(sum.i * c.i * alone.i);
    cost.w = to_nanoseconds(sum.w * c.w * alone.w);
    cost.b = to_nanoseconds(sum.b * c.b * alone.b);
    cost.r = to_nanoseconds(sum.f * c.r * alone.r);
    cost.optimizer = to_nanoseconds(optimizer * c.optimizer * alone.optimizer);
    return cost;
  }
  Bytes scratch{0};  // of the stage asked for last

 private:
  LayerTime layer_time(int l, Seconds& optimizer, CostTableResult& result) {
    const Layer& layer = loaded_.model.layers[static_cast<std::size_t>(l)];
    const int batch = loaded_.plan.micro_batch_size;
    if (const auto* timed = std::get_if<TimedShape>(&layer.shape)) {
      const double b = batch;
      return {timed->forward * b, timed->backward_input * b, timed->backward_weight * b,
              (timed->backward_input + timed->backward_weight) * b, 0};
    }
    const std::string key = layer_key(layer, loaded_.plan.seq_length, loaded_.plan.dtype);
    const auto found = known_.find(key);
    if (found == known_.end()) {
      throw InputError("costs", "layers", fmt::format("nothing is known of layer {} ({})", layer.name, key));
    }
    optimizer += found->second->optimizer;
    const TimeAt time = at_batch(*found->second, batch);
    scratch = std::max(scratch, time.time.scratch);
    if (!time.inside) {
      result.inside_range = false;
      const std::string warning = fmt::format("{} at micro-batch size {} is extrapolated", kind_name(layer), batch);
      if (std::find(result.warnings.begin(), result.warnings.end(), warning) == result.warnings.end()) {
        result.warnings.push_back(warning);
      }
    }
    return time.time;
  }

  const LoadedPlan& loaded_;
  const Costs& costs_;
  std::map<std::string, const LayerCost*> known_;
};

MessageCost message(Bytes bytes, const Link& whole) {
  const LinkRegime link = whole.at(bytes);
  const Seconds occupancy = link.bandwidth.count() > 0 ? bytes / link.bandwidth : Seconds(0);
  return {to_nanoseconds(occupancy), to_nanoseconds(link.latency)};
}

}  // namespace

std::string layer_key(const Layer& layer, std::int64_t seq_length, Dtype dtype) {
  return fmt::format("{} tokens={} {}", std::visit(Key{}, layer.shape), seq_length, to_string(dtype));
}

CostTableResult cost_table(const LoadedPlan& loaded, const Costs& costs, const Cluster& cluster) {
  const Plan& plan = loaded.plan;
  const ScheduleShape& shape = loaded.schedule.shape;
  const auto layers = static_cast<int>(loaded.model.layers.size());
  CostTableResult result;
  result.table.basis = costs.basis;
  result.scratch.assign(static_cast<std::size_t>(shape.ranks), Bytes(0));
  StageSums sums(loaded, costs);
  for (std::int32_t s = 0; s < shape.total_stages(); ++s) {
    const LayerRange range = layers_of_stage(plan, layers, Stage{s});
    StageCost cost = sums.of(range, result);
    cost.f = Nanoseconds(cost.f.count() / shape.segments);
    cost.i = Nanoseconds(cost.i.count() / shape.segments);
    cost.w = Nanoseconds(cost.w.count() / shape.segments);
    cost.b = Nanoseconds(cost.b.count() / shape.segments);
    cost.r = Nanoseconds(cost.r.count() / shape.segments);
    result.table.stages.push_back(cost);
    const Rank rank = shape.rank_of(Stage{s});
    auto& scratch = result.scratch[static_cast<std::size_t>(rank.value)];
    scratch = std::max(scratch, sums.scratch);
    const auto edge = [&](Stage to, int boundary_layer) {
      const std::int64_t bytes = crossing_bytes(loaded.model, boundary_layer, plan.seq_length, plan.dtype).count() *
                                 plan.micro_batch_size / shape.segments;
      const bool measured = costs.basis == Basis::measured || costs.basis == Basis::calibrated;
      return message(Bytes(bytes), measured ? costs.link : cluster.link(rank, shape.rank_of(to)));
    };
    const bool last = shape.is_last(Stage{s}), first = shape.is_first(Stage{s});
    result.table.forward_messages.push_back(last ? MessageCost{} : edge(Stage{s + 1}, range.last - 1));
    result.table.backward_messages.push_back(first ? MessageCost{} : edge(Stage{s - 1}, range.first - 1));
  }
  result.table.host_overhead = to_nanoseconds(costs.host_overhead);
  return result;
}

}  // namespace weir
