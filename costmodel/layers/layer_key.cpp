// Writes every field of a layer's shape that decides its work.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/layers/layer_key.hpp"

#include <fmt/format.h>

#include <variant>

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

}  // namespace weir
