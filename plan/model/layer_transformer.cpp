// The transformer block: its numbers, FLOPs and words. What it learns and keeps, tensor by tensor,
// is plan/model/transformer_tensors.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "plan/model/layer_kinds.hpp"

namespace weir::kinds {
namespace {

// Products of an MLP, of which a gate is one.
std::int64_t matrices(const TransformerShape& s) { return s.gated ? 3 : 2; }

// Its inner norms are RMS norms; nothing of it has a bias but its output.
std::int64_t latent_parameters(const TransformerShape& s) {
  const LatentAttention& l = s.latent;
  const auto h = s.hidden;
  const auto queries = s.heads * s.head_dim;
  const auto compressed = h * l.query + l.query + l.query * queries;
  const auto query = l.query > 0 ? compressed : h * queries;
  const auto down = h * (l.key_value + l.rotary);
  const auto gain = l.key_value;
  // The turned part of a key comes from the input, one for all heads; the rest from the latent.
  const auto unturned = s.head_dim - l.rotary;
  const auto up = l.key_value * s.heads * (unturned + l.value);
  const auto output = s.heads * l.value * h;
  const auto bias = s.output_bias ? h : 0;
  return query + down + gain + up + output + bias;
}

std::int64_t attention_parameters(const TransformerShape& s) {
  if (s.latent.key_value > 0) return latent_parameters(s);
  const auto h = s.hidden;
  const auto q = s.heads * s.head_dim;
  const auto projected = projected_width(s);
  const auto products = h * projected + q * h;
  const auto bias = s.qkv_bias ? projected : 0;
  const auto output_bias = s.output_bias ? h : 0;
  const auto head_norms = s.qk_norm ? query_gains(s) + key_gains(s) : 0;
  const auto sinks = s.sinks ? s.heads : 0;
  return products + bias + output_bias + head_norms + sinks;
}

std::int64_t mlp_parameters(const TransformerShape& s) {
  const auto h = s.hidden;
  const auto weights = matrices(s) * h * s.ffn;
  const auto up_bias = s.gated ? 2 * s.ffn : s.ffn;
  const auto biases = s.mlp_bias ? up_bias + h : 0;
  const auto router_bias = s.router_bias ? s.experts : 0;
  const auto router = s.experts > 1 ? h * s.experts + router_bias : 0;
  const auto gate = s.shared_gate ? h : 0;
  const auto shared = matrices(s) * h * s.shared_ffn + gate;
  return s.experts * (weights + biases) + router + shared;
}

// Multiply-adds a token of latent attention's products: its matrices' numbers.
double latent_products(const TransformerShape& b) {
  const auto gains = b.latent.query + b.latent.key_value;
  const auto bias = b.output_bias ? b.hidden : 0;
  return static_cast<double>(latent_parameters(b) - gains - bias);
}

std::int64_t norm_count(const TransformerShape& s) {
  const int cross = s.cross_attention ? 1 : 0;
  const int post = s.post_norms ? 2 : 0;
  const int shared = s.single_norm ? 1 : 0;
  return 2 + cross + post - shared;
}

std::int64_t prediction_parameters(const TransformerShape& s) {
  if (!predicts(s)) return 0;
  return prediction_projection(s) + 3 * norm_parameters(s.norm, s.hidden);
}

}  // namespace

std::int64_t projected_width(const TransformerShape& s) {
  return (s.heads + (s.values_are_keys ? 1 : 2) * s.kv_heads) * s.head_dim;
}
std::int64_t query_gains(const TransformerShape& s) {
  return (s.wide_qk_norm ? s.heads : 1) * s.head_dim;
}
std::int64_t key_gains(const TransformerShape& s) {
  return (s.wide_qk_norm ? s.kv_heads : 1) * s.head_dim;
}

std::int64_t parameter_count(const TransformerShape& s) {
  const int attentions = s.cross_attention ? 2 : 1;
  const auto norms = norm_count(s) * norm_parameters(s.norm, s.hidden);
  const auto positions = s.relative_buckets * s.heads;
  const auto attention = attentions * attention_parameters(s);
  return attention + mlp_parameters(s) + norms + positions + prediction_parameters(s);
}

// docs/theory.md 5.1.
Flops forward_flops(const TransformerShape& b, std::int64_t seq_length) {
  const auto number = [](std::int64_t value) { return static_cast<double>(value); };
  const double s = number(seq_length);
  const double h = number(b.hidden);
  const double q = number(b.heads * b.head_dim);
  const double context = number(b.heads * value_dim(b));
  const double own = 2 * h * number(projected_width(b)) + 2 * q * h;
  const bool latent = b.latent.key_value > 0;
  const double products = latent ? 2 * latent_products(b) : own;
  const double core = 2 * s * keys_seen(b, s) * (q + context);
  const double attention = s * products + core;
  const double attentions = b.cross_attention ? 2 : 1;
  // A token counts once for each expert it visits; all tokens pass the shared ones.
  const double each = 2 * number(matrices(b));
  const double visited = b.experts > 1 ? number(b.experts_per_token) : 1;
  const double mlp = s * each * h * number(b.ffn) * visited;
  const double router = b.experts > 1 ? s * 2 * h * number(b.experts) : 0;
  const double gate = b.shared_gate ? s * 2 * h : 0;
  const double shared = s * each * h * number(b.shared_ffn) + gate;
  const double predicted = s * 2 * number(prediction_projection(b));
  return Flops(attention * attentions + mlp + router + shared + predicted);
}

TransformerShape shard(TransformerShape b, int tp) {
  b.heads /= tp;
  b.kv_heads /= tp;
  b.ffn /= tp;
  b.shared_ffn /= tp;
  b.prediction.vocabulary = ceil_div(b.prediction.vocabulary, tp);
  b.prediction.projected = ceil_div(b.prediction.projected, tp);
  return b;
}

std::string work_key(const TransformerShape& b) {
  std::string key = fmt::format("transformer hidden={} heads={}", b.hidden, b.heads);
  key += fmt::format(" kv_heads={} head_dim={}", b.kv_heads, b.head_dim);
  key += fmt::format(" ffn={} experts={}/{}", b.ffn, b.experts_per_token, b.experts);
  const int activation = static_cast<int>(b.activation);
  const int norm = static_cast<int>(b.norm);
  key += fmt::format(" activation={} norm={}", activation, norm);
  key += fmt::format(" pre_norm={} gated={} bias=", b.pre_norm, b.gated);
  for (const bool bias : {b.qkv_bias, b.output_bias, b.mlp_bias}) key += bias ? '1' : '0';
  key += fmt::format(" causal={} rotary={}", b.causal, b.rotary);
  key += fmt::format(" parallel={} cross={}", b.parallel, b.cross_attention);
  key += fmt::format(" relative={}", b.relative_buckets);
  key += fmt::format(" dropout={}/{}", b.attention_dropout, b.residual_dropout);
  // What came later is said only where it is there, so that older files of costs keep their keys.
  const auto size = [&key](std::string_view name, std::int64_t value) {
    if (value > 0) key += fmt::format(" {}={}", name, value);
  };
  const auto flag = [&key](std::string_view name, bool set) {
    if (set) key += name;
  };
  flag(" qk_norm", b.qk_norm);
  size("shared", b.shared_ffn);
  size("window", b.window);
  size("latent", b.latent.key_value);
  size("latent_query", b.latent.query);
  size("rotary_dim", b.latent.rotary);
  size("value_dim", b.latent.value);
  flag(" shared_gate", b.shared_gate);
  flag(" router_bias", b.router_bias);
  flag(" single_norm", b.single_norm);
  flag(" post_norms", b.post_norms);
  flag(" sinks", b.sinks);
  flag(" wide_qk_norm", b.wide_qk_norm);
  flag(" values_are_keys", b.values_are_keys);
  size("prediction", b.prediction.ahead);
  size("prediction_vocabulary", b.prediction.vocabulary);
  flag(" attention=fused", b.attention == AttentionKind::fused);
  return key;
}

}  // namespace weir::kinds
