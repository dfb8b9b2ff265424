// Names and sizes of layers.
// SPDX-License-Identifier: Apache-2.0
#include "plan/model/model.hpp"

#include "plan/words/names.hpp"

namespace weir {
namespace {

constexpr Names<AttentionKind, 2> kAttentionKinds{
    {{AttentionKind::unfused, "unfused"}, {AttentionKind::fused, "fused"}}};

std::int64_t norm_parameters(NormKind kind, std::int64_t hidden) {
  return kind == NormKind::layer_norm ? 2 * hidden : hidden;
}

std::int64_t attention_parameters(const TransformerShape& s) {
  const std::int64_t q = s.heads * s.head_dim;
  const std::int64_t kv = 2 * s.kv_heads * s.head_dim;
  return s.hidden * (q + kv) + (s.qkv_bias ? q + kv : 0) + q * s.hidden +
         (s.output_bias ? s.hidden : 0);
}

std::int64_t mlp_parameters(const TransformerShape& s) {
  const std::int64_t matrices = (s.gated ? 3 : 2) * s.hidden * s.ffn;
  const std::int64_t biases = s.mlp_bias ? (s.gated ? 2 : 1) * s.ffn + s.hidden : 0;
  const std::int64_t router = s.experts > 1 ? s.hidden * s.experts : 0;
  return s.experts * (matrices + biases) + router;
}

struct Count {
  std::int64_t operator()(const EmbeddingShape& s) const {
    const std::int64_t patches =
        s.patch > 0 ? (s.patch + 2) * s.hidden : 0;  // projection, its bias, the class token
    return ((s.shared ? 0 : s.vocabulary) + s.positions + s.token_types) * s.hidden + patches +
           (s.norm ? 2 * s.hidden : 0);
  }
  std::int64_t operator()(const TransformerShape& s) const {
    const std::int64_t attentions = s.cross_attention ? 2 : 1;
    const std::int64_t norms = s.cross_attention ? 3 : 2;
    return attentions * attention_parameters(s) + mlp_parameters(s) +
           norms * norm_parameters(s.norm, s.hidden) + s.relative_buckets * s.heads;
  }
  std::int64_t operator()(const NormShape& s) const { return norm_parameters(s.kind, s.hidden); }
  std::int64_t operator()(const HeadShape& s) const {
    const std::int64_t dense = s.dense == HeadDense::none ? 0 : s.hidden * s.hidden + s.hidden;
    const std::int64_t norm =
        s.dense == HeadDense::transform ? norm_parameters(NormKind::layer_norm, s.hidden) : 0;
    return dense + norm + (s.tied ? 0 : s.vocabulary * s.hidden) + (s.bias ? s.vocabulary : 0);
  }
  std::int64_t operator()(const TimedShape& s) const { return s.parameters; }
  std::int64_t operator()(const SizedShape& s) const { return s.parameters; }
};

struct Kind {
  const Layer& layer;
  std::string operator()(const EmbeddingShape&) const { return "embedding"; }
  std::string operator()(const TransformerShape&) const { return "transformer"; }
  std::string operator()(const NormShape&) const { return "norm"; }
  std::string operator()(const HeadShape&) const { return "head"; }
  std::string operator()(const TimedShape&) const { return layer.label; }
  std::string operator()(const SizedShape&) const { return layer.label; }
};

}  // namespace

std::string_view to_string(AttentionKind kind) { return name_of(kAttentionKinds, kind); }

std::optional<AttentionKind> parse_attention_kind(std::string_view text) {
  return text == "flash" ? AttentionKind::fused : named(kAttentionKinds, text);
}

void set_attention(Model& model, AttentionKind kind) {
  for (Layer& layer : model.layers) {
    if (auto* block = std::get_if<TransformerShape>(&layer.shape)) block->attention = kind;
  }
}

std::string kind_name(const Layer& layer) { return std::visit(Kind{layer}, layer.shape); }

std::int64_t parameter_count(const Layer& layer) { return std::visit(Count{}, layer.shape); }

std::int64_t parameter_count(const Model& model) {
  std::int64_t total = 0;
  for (const Layer& layer : model.layers) total += parameter_count(layer);
  return total;
}

}  // namespace weir
