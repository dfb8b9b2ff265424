// From costs of layers to costs of stages.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/table/costs.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "costmodel/layers/layer_math.hpp"
#include "costmodel/links/parallel.hpp"
#include "costmodel/table/stage_sums.hpp"

namespace weir {
namespace {

struct Key {
  std::string operator()(const EmbeddingShape& e) const {
    const std::string patches = e.patch > 0 ? fmt::format(" patch={}", e.patch) : "";
    return fmt::format(
        "embedding vocabulary={} hidden={} positions={} types={} norm={} dropout={}{}",
        e.vocabulary, e.hidden, e.positions, e.token_types, e.norm, e.dropout, patches);
  }
  std::string operator()(const TransformerShape& b) const {
    const std::string_view fused = b.attention == AttentionKind::fused ? " attention=fused" : "";
    return fmt::format(
        "transformer hidden={} heads={} kv_heads={} head_dim={} ffn={} experts={}/{} activation={} "
        "norm={} pre_norm={} "
        "gated={} bias={}{}{} causal={} rotary={} parallel={} cross={} relative={} dropout={}/{}{}",
        b.hidden, b.heads, b.kv_heads, b.head_dim, b.ffn, b.experts_per_token, b.experts,
        static_cast<int>(b.activation), static_cast<int>(b.norm), b.pre_norm, b.gated,
        static_cast<int>(b.qkv_bias), static_cast<int>(b.output_bias), static_cast<int>(b.mlp_bias),
        b.causal, b.rotary, b.parallel, b.cross_attention, b.relative_buckets, b.attention_dropout,
        b.residual_dropout, fused);
  }
  std::string operator()(const NormShape& n) const {
    return fmt::format("norm hidden={} kind={}", n.hidden, static_cast<int>(n.kind));
  }
  std::string operator()(const HeadShape& h) const {
    const std::string dense =
        h.dense == HeadDense::none ? "" : fmt::format(" dense={}", static_cast<int>(h.dense));
    return fmt::format("head hidden={} vocabulary={} bias={} pooled={}{}", h.hidden, h.vocabulary,
                       h.bias, h.pooled, dense);
  }
  std::string operator()(const TimedShape& t) const {
    return fmt::format("timed f={} i={} w={}", t.forward.count(), t.backward_input.count(),
                       t.backward_weight.count());
  }
  std::string operator()(const SizedShape& s) const {
    return fmt::format("sized flops={} parameters={} input={}{} kept={} output={}",
                       s.forward.count(), s.parameters, s.input, s.keeps_input ? " kept" : "",
                       s.kept, s.output);
  }
};

// The executor's exchange of tied gradients is part of its update; on a GPU cluster it is a
// reduction of its own.
void add_tied_reductions(const ResolvedPlan& loaded, const Cluster& cluster, CostTable& table) {
  if (!cluster.device.kernels) return;
  const ScheduleShape& shape = loaded.schedule.shape;
  for (const Tie& tie : loaded.ties) {
    std::vector<Rank> holders;
    for (const Stage stage : tie.holders) {
      const Rank rank = shape.rank_of(stage);
      if (std::find(holders.begin(), holders.end(), rank) == holders.end()) holders.push_back(rank);
    }
    const Nanoseconds reduction =
        to_nanoseconds(tied_reduction(tie.parameters, loaded.plan, cluster, holders));
    for (std::int32_t s = 0; s < shape.total_stages(); ++s) {
      const bool holds =
          std::binary_search(tie.holders.begin(), tie.holders.end(), Stage{s % shape.stages});
      if (holds) table.stages[static_cast<std::size_t>(s)].reduce += reduction;
    }
  }
}

}  // namespace

std::string layer_key(const Layer& layer, std::int64_t seq_length, Dtype dtype,
                      const Split& split) {
  std::string key =
      fmt::format("{} tokens={} {}", std::visit(Key{}, layer.shape), seq_length, to_string(dtype));
  if (split.tp > 1)
    key += fmt::format(" tp={}{}", split.tp, split.sequence_parallel ? " sequence" : "");
  if (split.cp > 1) key += fmt::format(" cp={}", split.cp);
  return key;
}

CostTableResult cost_table(const ResolvedPlan& loaded, const Costs& costs, const Cluster& cluster) {
  const Plan& plan = loaded.plan;
  const ScheduleShape& shape = loaded.schedule.shape;
  CostTableResult result;
  result.table.basis = costs.basis;
  result.scratch.assign(static_cast<std::size_t>(shape.ranks), Bytes(0));
  StageSums sums(loaded, costs, cluster);
  for (std::int32_t s = 0; s < shape.total_stages(); ++s) {
    const StagePart& stage = loaded.stage(Stage{s});
    StageCost cost = sums.of(stage.layers, result);
    cost.f = Nanoseconds(cost.f.count() / shape.segments);
    cost.i = Nanoseconds(cost.i.count() / shape.segments);
    cost.w = Nanoseconds(cost.w.count() / shape.segments);
    cost.b = Nanoseconds(cost.b.count() / shape.segments);
    cost.r = Nanoseconds(cost.r.count() / shape.segments);
    const Rank rank = shape.rank_of(Stage{s});
    const auto straggler = cluster.stragglers.find(rank.value);
    result.table.stages.push_back(
        straggler == cluster.stragglers.end() ? cost : slowed(cost, straggler->second));
    auto& scratch = result.scratch[static_cast<std::size_t>(rank.value)];
    scratch = std::max(scratch, sums.scratch);
    const auto edge = [&](Stage to, std::int64_t sample) {
      const Bytes bytes(sample * plan.micro_batch_size / shape.segments);
      return stage_message(bytes, plan, stage_link(costs, plan, cluster, rank, shape.rank_of(to)),
                           cluster);
    };
    const bool last = shape.is_last(Stage{s}), first = shape.is_first(Stage{s});
    result.table.forward_messages.push_back(last ? MessageCost{}
                                                 : edge(Stage{s + 1}, stage.output_bytes));
    result.table.backward_messages.push_back(first ? MessageCost{}
                                                   : edge(Stage{s - 1}, stage.input_bytes));
  }
  add_tied_reductions(loaded, cluster, result.table);
  result.table.host_overhead = to_nanoseconds(costs.host_overhead);
  return result;
}

}  // namespace weir
