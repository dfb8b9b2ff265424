// The transformer block: attention and MLP with residuals.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "plan/model/layer_kinds.hpp"

namespace weir::kinds {
namespace {

using Init = ParameterTensor::Init;

// Its inner norms are RMS norms; nothing of it has a bias but its output.
std::int64_t latent_parameters(const TransformerShape& s) {
  const LatentAttention& l = s.latent;
  const std::int64_t queries = s.heads * s.head_dim;
  const std::int64_t query =
      l.query > 0 ? s.hidden * l.query + l.query + l.query * queries : s.hidden * queries;
  const std::int64_t unturned = s.head_dim - l.rotary;
  return query + s.hidden * (l.key_value + l.rotary) + l.key_value +
         l.key_value * s.heads * (unturned + l.value) + s.heads * l.value * s.hidden +
         (s.output_bias ? s.hidden : 0);
}

// Numbers of a token that the product before the core makes of it.
std::int64_t projected_width(const TransformerShape& s) {
  return (s.heads + (s.values_are_keys ? 1 : 2) * s.kv_heads) * s.head_dim;
}
std::int64_t query_gains(const TransformerShape& s) {
  return (s.wide_qk_norm ? s.heads : 1) * s.head_dim;
}
std::int64_t key_gains(const TransformerShape& s) {
  return (s.wide_qk_norm ? s.kv_heads : 1) * s.head_dim;
}

std::int64_t attention_parameters(const TransformerShape& s) {
  if (s.latent.key_value > 0) return latent_parameters(s);
  const std::int64_t projected = projected_width(s);
  return s.hidden * projected + (s.qkv_bias ? projected : 0) + s.heads * s.head_dim * s.hidden +
         (s.output_bias ? s.hidden : 0) + (s.qk_norm ? query_gains(s) + key_gains(s) : 0) +
         (s.sinks ? s.heads : 0);
}

std::int64_t mlp_parameters(const TransformerShape& s) {
  const std::int64_t matrices = (s.gated ? 3 : 2) * s.hidden * s.ffn;
  const std::int64_t biases = s.mlp_bias ? (s.gated ? 2 : 1) * s.ffn + s.hidden : 0;
  const std::int64_t router =
      s.experts > 1 ? s.hidden * s.experts + (s.router_bias ? s.experts : 0) : 0;
  const std::int64_t shared =
      (s.gated ? 3 : 2) * s.hidden * s.shared_ffn + (s.shared_gate ? s.hidden : 0);
  return s.experts * (matrices + biases) + router + shared;
}

// Multiply-adds a token of latent attention's products: its matrices' numbers.
double latent_products(const TransformerShape& b) {
  const std::int64_t gains = b.latent.query + b.latent.key_value;
  return static_cast<double>(latent_parameters(b) - gains - (b.output_bias ? b.hidden : 0));
}

std::int64_t norm_count(const TransformerShape& s) {
  return 2 + (s.cross_attention ? 1 : 0) + (s.post_norms ? 2 : 0) - (s.single_norm ? 1 : 0);
}

std::int64_t prediction_parameters(const TransformerShape& s) {
  if (!predicts(s)) return 0;
  return prediction_projection(s) + 3 * norm_parameters(s.norm, s.hidden);
}

// What a weight gradient reads must stay until W, the rest goes with I.
KeptUntil until(bool read_by_w) { return read_by_w ? KeptUntil::W : KeptUntil::I; }

std::int64_t qkv_width(const TransformerShape& b) {
  return (b.heads + b.kv_heads) * b.head_dim + b.kv_heads * value_dim(b);
}
// Of a token, what latent attention makes queries, keys and values of.
std::int64_t latent_width(const TransformerShape& b) {
  return b.latent.query + b.latent.key_value + b.latent.rotary;
}
std::int64_t up_width(const TransformerShape& b) { return (b.gated ? 2 : 1) * b.ffn; }
std::int64_t shared_up_width(const TransformerShape& b) { return (b.gated ? 2 : 1) * b.shared_ffn; }

void add_latent_attention(LayerTensors& t, const TransformerShape& b) {
  const LatentAttention& l = b.latent;
  const std::int64_t queries = b.heads * b.head_dim;
  if (l.query > 0) {
    add_product(t, "attention.query.down", {l.query, b.hidden}, Init::normal, false);
    add_norm(t, "attention.query.norm", l.query, NormKind::rms_norm);
    add_product(t, "attention.query.up", {queries, l.query}, Init::normal, false);
  } else {
    add_product(t, "attention.query", {queries, b.hidden}, Init::normal, false);
  }
  const std::int64_t expanded = b.heads * (b.head_dim - l.rotary + l.value);
  add_product(t, "attention.key_value.down", {l.key_value + l.rotary, b.hidden}, Init::normal,
              false);
  add_norm(t, "attention.key_value.norm", l.key_value, NormKind::rms_norm);
  add_product(t, "attention.key_value.up", {expanded, l.key_value}, Init::normal, false);
  add_product(t, "attention.output", {b.hidden, b.heads * l.value}, Init::residual_normal,
              b.output_bias);
}

void add_attention(LayerTensors& t, const TransformerShape& b) {
  if (b.latent.key_value > 0) return add_latent_attention(t, b);
  add_product(t, "attention.qkv", {projected_width(b), b.hidden}, Init::normal, b.qkv_bias);
  if (b.qk_norm) {
    add_norm(t, "attention.query.norm", query_gains(b), NormKind::rms_norm);
    add_norm(t, "attention.key.norm", key_gains(b), NormKind::rms_norm);
  }
  add_product(t, "attention.output", {b.hidden, b.heads * b.head_dim}, Init::residual_normal,
              b.output_bias);
  if (b.sinks) t.parameters.push_back({"attention.sinks", {b.heads}, Init::zeros, false, ""});
}

// What the inner norms read, their statistics, and what the products behind them read; of tokens
// that tensor parallelism leaves whole.
void save_latents(LayerTensors& t, const TransformerShape& b, const DeviceTokens& z) {
  const std::int64_t norms = b.latent.query > 0 ? 2 : 1;
  t.saved.push_back({"attention.latents", z.rows * latent_width(b) * z.element, KeptUntil::I});
  t.saved.push_back({"attention.latents.statistics", norms * z.rows * 4, KeptUntil::I});
  t.saved.push_back({"attention.latents.normed",
                     z.rows * (b.latent.query + b.latent.key_value) * z.element, KeptUntil::W});
}

// Queries and keys as their norms read them, and 1 / deviation of each head's, or of all heads'.
void save_head_norms(LayerTensors& t, const TransformerShape& b, const DeviceTokens& z) {
  const std::int64_t heads = z.s * (b.heads + b.kv_heads);
  t.saved.push_back({"attention.query_key", heads * b.head_dim * z.element, KeptUntil::I});
  const std::int64_t deviations = b.wide_qk_norm ? 2 * z.s : heads;
  t.saved.push_back({"attention.query_key.statistics", deviations * 4, KeptUntil::I});
}

// What the attention's core keeps: its probabilities, or fused the log-sum-exp of each row's
// scores, in fp32.
KeptTensor core(const std::string& attention, const TransformerShape& b, const DeviceTokens& z) {
  if (b.attention == AttentionKind::fused) {
    return {attention + ".statistics", b.heads * z.s * 4, KeptUntil::I, BlockModule::core_attn};
  }
  return {attention + ".probabilities", b.heads * z.s * z.keys * z.element, KeptUntil::I,
          BlockModule::core_attn};
}

void save_attention(LayerTensors& t, const TransformerShape& b, const DeviceTokens& z) {
  t.saved.push_back({"attention.qkv", z.s * qkv_width(b) * z.element, KeptUntil::I});
  t.saved.push_back(core("attention", b, z));
  t.saved.push_back({"attention.context", z.s * b.heads * value_dim(b) * z.element, KeptUntil::W});
  if (b.latent.key_value > 0) save_latents(t, b, z);
}

// Queries from the decoder, keys and values from the encoder's output, which is as long as the
// decoder's input.
void add_cross_attention(LayerTensors& t, const TransformerShape& b, const DeviceTokens& z) {
  const std::int64_t q = b.heads * b.head_dim, kv = 2 * b.kv_heads * b.head_dim;
  add_norm(t, "cross.norm", b.hidden, b.norm);
  add_product(t, "cross.query", {q, b.hidden}, Init::normal, b.qkv_bias);
  add_product(t, "cross.key_value", {kv, b.hidden}, Init::normal, b.qkv_bias);
  add_product(t, "cross.output", {b.hidden, q}, Init::residual_normal, b.output_bias);
  t.saved.push_back({"cross.input", z.rows * b.hidden * z.element, KeptUntil::I});
  t.saved.push_back({"cross.norm.statistics", 2 * z.rows * 4, KeptUntil::I});
  t.saved.push_back({"cross.normed", z.rows * b.hidden * z.element, KeptUntil::W});
  t.saved.push_back({"cross.query", z.s * q * z.element, KeptUntil::I});
  t.saved.push_back({"cross.key_value", z.s * kv * z.element, KeptUntil::I});
  t.saved.push_back(core("cross", b, z));
  t.saved.push_back({"cross.context", z.s * q * z.element, KeptUntil::W});
}

// One MLP that every token passes beside the experts it was sent to.
void add_shared_experts(LayerTensors& t, const TransformerShape& b, const DeviceTokens& z) {
  const std::int64_t up = shared_up_width(b);
  add_product(t, "mlp.shared.up", {up, b.hidden}, Init::normal, false);
  add_product(t, "mlp.shared.down", {b.hidden, b.shared_ffn}, Init::residual_normal, false);
  t.saved.push_back({"mlp.shared.up", z.s * up * z.element, KeptUntil::I});
  t.saved.push_back({"mlp.shared.activated", z.s * b.shared_ffn * z.element, KeptUntil::W});
  if (!b.shared_gate) return;
  add_product(t, "mlp.shared.gate", {1, b.hidden}, Init::normal, false);
  t.saved.push_back({"mlp.shared.answers", z.s * b.hidden * z.element, KeptUntil::I});
}

// Experts: each token is copied to those it visits, in the order of experts; their outputs are
// weighed by the router's probabilities, whose gradient needs them.
void add_mlp(LayerTensors& t, const TransformerShape& b, const DeviceTokens& z) {
  const std::int64_t up = up_width(b);
  if (b.experts == 1) {
    add_product(t, "mlp.up", {up, b.hidden}, Init::normal, b.mlp_bias);
    add_product(t, "mlp.down", {b.hidden, b.ffn}, Init::residual_normal, b.mlp_bias);
    t.saved.push_back({"mlp.up", z.s * up * z.element, KeptUntil::I});
    t.saved.push_back({"mlp.activated", z.s * b.ffn * z.element, KeptUntil::W});
    return;
  }
  const std::int64_t visited = visits(b, z.s), local = local_experts(b);
  const bool apart = experts_apart(b);
  t.parameters.push_back({"mlp.router.weight", {b.experts, b.hidden}, Init::normal, true, ""});
  if (b.router_bias)
    t.parameters.push_back({"mlp.router.bias", {b.experts}, Init::zeros, false, ""});
  t.parameters.push_back({"mlp.up.weight", {local, up, b.hidden}, Init::normal, true, "", apart});
  if (b.mlp_bias)
    t.parameters.push_back({"mlp.up.bias", {local, up}, Init::zeros, false, "", apart});
  t.parameters.push_back(
      {"mlp.down.weight", {local, b.hidden, b.ffn}, Init::residual_normal, true, "", apart});
  if (b.mlp_bias)
    t.parameters.push_back({"mlp.down.bias", {local, b.hidden}, Init::zeros, false, "", apart});
  t.saved.push_back({"mlp.router.probabilities", z.s * b.experts * z.element, KeptUntil::I});
  t.saved.push_back({"mlp.visits", visited * b.hidden * z.element, KeptUntil::W});
  t.saved.push_back({"mlp.up", visited * up * z.element, KeptUntil::I});
  t.saved.push_back({"mlp.activated", visited * b.ffn * z.element, KeptUntil::W});
  t.saved.push_back({"mlp.answers", visited * b.hidden * z.element, KeptUntil::I});
  if (b.shared_ffn > 0) add_shared_experts(t, b, z);
}

// Norms of what attention and MLP give: what they read, and their statistics.
void save_post_norms(LayerTensors& t, const TransformerShape& b, const DeviceTokens& z) {
  for (const char* of : {"attention", "mlp"}) {
    const std::string name = std::string(of) + ".answer";
    add_norm(t, name + ".norm", b.hidden, b.norm);
    t.saved.push_back({name, z.rows * b.hidden * z.element, KeptUntil::I});
    t.saved.push_back({name + ".norm.statistics", 2 * z.rows * 4, KeptUntil::I});
  }
}

void carry_gradients(LayerTensors& t, const TransformerShape& b, const DeviceTokens& z) {
  const std::int64_t visited = b.experts > 1 ? visits(b, z.s) : z.s;
  t.carried.push_back({"mlp.up.gradient", visited * up_width(b) * z.element, KeptUntil::W});
  if (b.experts > 1) {
    t.carried.push_back({"mlp.router.gradient", z.s * b.experts * z.element, KeptUntil::W});
    t.carried.push_back({"mlp.answers.gradient", visited * b.hidden * z.element, KeptUntil::W});
    if (b.shared_ffn > 0) {
      t.carried.push_back(
          {"mlp.shared.up.gradient", z.s * shared_up_width(b) * z.element, KeptUntil::W});
    }
  }
  t.carried.push_back({"attention.output.gradient", z.rows * b.hidden * z.element, KeptUntil::W});
  t.carried.push_back({"attention.qkv.gradient", z.s * qkv_width(b) * z.element, KeptUntil::W});
  if (b.latent.key_value > 0) {
    t.carried.push_back(
        {"attention.latents.gradient", z.rows * latent_width(b) * z.element, KeptUntil::W});
  }
  if (b.cross_attention) {
    t.carried.push_back({"cross.output.gradient", z.rows * b.hidden * z.element, KeptUntil::W});
    t.carried.push_back({"cross.gradients", z.s * qkv_width(b) * z.element, KeptUntil::W});
  }
  t.carried.push_back({"norm.gradients", norm_count(b) * 2 * b.hidden * 4, KeptUntil::W});
  if (b.qk_norm)
    t.carried.push_back(
        {"query_key.norm.gradients", (query_gains(b) + key_gains(b)) * 4, KeptUntil::W});
  // Behind a norm the output's gradient is none of the MLP's answer.
  if (!b.pre_norm)
    t.carried.push_back({"mlp.output.gradient", z.rows * b.hidden * z.element, KeptUntil::W});
}

// In front of such a block and behind it. The table is the model's.
void add_prediction(LayerTensors& t, const TransformerShape& b, const DeviceTokens& z) {
  const std::int64_t h = b.hidden, tokens = z.rows * h * z.element;
  t.parameters.push_back(
      {"prediction.token", {b.prediction.vocabulary, h}, Init::normal, true, "token"});
  add_norm(t, "prediction.embedding.norm", h, b.norm);
  add_norm(t, "prediction.hidden.norm", h, b.norm);
  add_product(t, "prediction.projection", {b.prediction.projected, 2 * h}, Init::normal, false);
  add_norm(t, "prediction.norm", h, b.norm);
  const std::vector<KeptTensor> kept = kept_by_prediction(b, z);
  t.saved.insert(t.saved.end(), kept.begin(), kept.end());
  // The first keeps what came in, which it reads; a later one the last part of that.
  t.saves_input = b.prediction.ahead == 1;
  t.input_until = KeptUntil::I;
  t.output_bytes_per_sample = (b.prediction.ahead + 1) * tokens;
  t.carried.push_back({"prediction.embedding.gradient", tokens, KeptUntil::W});
  t.carried.push_back({"prediction.projected.gradient", tokens, KeptUntil::W});
  t.carried.push_back({"prediction.norm.gradients", 3 * 2 * h * 4, KeptUntil::W});
  t.w_needs_output_gradient = false;
  if (z.rows == z.s) return;
  // Under sequence parallelism all of what is projected is gathered.
  const std::int64_t gathered = 2 * z.s * h * z.element;
  t.workspace_f_bytes_per_sample = std::max(t.workspace_f_bytes_per_sample, gathered);
  t.workspace_w_bytes_per_sample = std::max(t.workspace_w_bytes_per_sample, gathered);
}

}  // namespace

std::vector<KeptTensor> kept_by_prediction(const TransformerShape& b, const DeviceTokens& z) {
  if (!predicts(b)) return {};
  const std::int64_t tokens = z.rows * b.hidden * z.element;
  std::vector<KeptTensor> kept{
      {"prediction.embedding", tokens, KeptUntil::I},
      {"prediction.normed", 2 * tokens, KeptUntil::W},
      {"prediction.projected", tokens, until(!b.pre_norm)},
      {"prediction.answer", tokens, KeptUntil::I},
      {"prediction.statistics", 3 * 2 * z.rows * 4, KeptUntil::I},
  };
  if (b.prediction.ahead > 1) kept.push_back({"prediction.hidden", tokens, KeptUntil::I});
  return kept;
}

std::int64_t parameter_count(const TransformerShape& s) {
  const std::int64_t attentions = s.cross_attention ? 2 : 1;
  return attentions * attention_parameters(s) + mlp_parameters(s) +
         norm_count(s) * norm_parameters(s.norm, s.hidden) + s.relative_buckets * s.heads +
         prediction_parameters(s);
}

// n1 = norm(x); q,k,v = n1 Wqkv; p = softmax(q k'); c = drop(p) v; y1 = x + drop(c Wo); n2 =
// norm(y1); u = n2 Wup; g = gelu(u); y = y1 + drop(g Wdown). Post-norm (BERT): the products read
// x and n1 = norm(x + drop(c Wo)), and y = norm(n1 + drop(g Wdown)). Parallel (GPT-NeoX): both
// norms read x. With cross attention (T5's decoder) a third norm, products and softmax stand
// between; the encoder's output is a skip's tensor and counted with the boundary it crosses.
LayerTensors tensors(const TransformerShape& b, const DeviceTokens& z) {
  LayerTensors t;
  const std::int64_t tokens = z.rows * b.hidden * z.element;
  add_norm(t, "attention.norm", b.hidden, b.norm);
  add_attention(t, b);
  if (b.relative_buckets > 0) {
    t.parameters.push_back(
        {"attention.relative", {b.relative_buckets, b.heads}, Init::normal, true, ""});
  }
  t.saved.push_back({"attention.norm.statistics", 2 * z.rows * 4, KeptUntil::I});
  t.saved.push_back({b.pre_norm ? "attention.normed" : "attention.sum", tokens, until(b.pre_norm)});
  save_attention(t, b, z);
  if (b.cross_attention) add_cross_attention(t, b, z);
  if (b.post_norms) save_post_norms(t, b, z);
  if (!b.single_norm) add_norm(t, "mlp.norm", b.hidden, b.norm);
  if (!b.parallel) t.saved.push_back({"mlp.input", tokens, until(!b.pre_norm)});
  if (!b.single_norm) {
    t.saved.push_back({"mlp.norm.statistics", 2 * z.rows * 4, KeptUntil::I});
    t.saved.push_back({b.pre_norm ? "mlp.normed" : "mlp.sum", tokens, until(b.pre_norm)});
  }
  add_mlp(t, b, z);
  if (b.qk_norm) save_head_norms(t, b, z);
  t.output_bytes_per_sample = tokens;
  t.saves_input = true;
  t.input_until = until(!b.pre_norm);
  t.w_needs_output_gradient = b.pre_norm;
  carry_gradients(t, b, z);
  const bool fused = b.attention == AttentionKind::fused;
  const std::int64_t scores = fused ? 0 : z.s * z.keys;
  // The context's gradient takes turns with that of the residual stream.
  const std::int64_t widest = std::max(b.hidden, b.heads * value_dim(b));
  const std::int64_t row_sums =
      fused ? b.heads * z.s * 4 : 0;  // of a fused backward: context times its gradient
  const std::int64_t gathered =
      z.rows < z.s ? z.s * b.hidden * z.element : 0;  // of sequence parallelism
  t.workspace_f_bytes_per_sample = scores * z.element + gathered;
  t.workspace_i_bytes_per_sample =
      (z.s * (b.hidden + widest) + 2 * scores) * z.element + row_sums + gathered;
  t.workspace_w_bytes_per_sample = (b.pre_norm ? z.s * b.hidden * z.element : 0) + gathered;
  if (predicts(b)) add_prediction(t, b, z);
  return t;
}

Flops forward_flops(const TransformerShape& b, std::int64_t seq_length) {
  const auto s = static_cast<double>(seq_length);
  const auto h = static_cast<double>(b.hidden);
  const auto q = static_cast<double>(b.heads * b.head_dim);
  const auto projected = static_cast<double>(projected_width(b));
  const auto context = static_cast<double>(b.heads * value_dim(b));
  const double products =
      b.latent.key_value > 0 ? 2 * latent_products(b) : 2 * h * projected + 2 * q * h;
  const double attention = s * products + 2 * s * keys_seen(b, s) * (q + context);
  const double experts = b.experts > 1 ? static_cast<double>(b.experts_per_token) : 1;
  const double mlp = s * 2 * (b.gated ? 3 : 2) * h * static_cast<double>(b.ffn) * experts;
  const double router = b.experts > 1 ? s * 2 * h * static_cast<double>(b.experts) : 0;
  const double shared = s * 2 * (b.gated ? 3 : 2) * h * static_cast<double>(b.shared_ffn) +
                        (b.shared_gate ? s * 2 * h : 0);
  const double predicted = s * 2 * static_cast<double>(prediction_projection(b));
  return Flops(attention * (b.cross_attention ? 2 : 1) + mlp + router + shared + predicted);
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
  const auto word = [](std::string_view name, std::int64_t value) {
    return value > 0 ? fmt::format(" {}={}", name, value) : std::string();
  };
  const LatentAttention& l = b.latent;
  const std::string later =
      word("shared", b.shared_ffn) + word("window", b.window) + word("latent", l.key_value) +
      word("latent_query", l.query) + word("rotary_dim", l.rotary) + word("value_dim", l.value) +
      (b.shared_gate ? " shared_gate" : "") + (b.router_bias ? " router_bias" : "") +
      (b.single_norm ? " single_norm" : "") + (b.post_norms ? " post_norms" : "") +
      (b.sinks ? " sinks" : "") + (b.wide_qk_norm ? " wide_qk_norm" : "") +
      (b.values_are_keys ? " values_are_keys" : "") + word("prediction", b.prediction.ahead) +
      word("prediction_vocabulary", b.prediction.vocabulary);
  const std::string_view fused = b.attention == AttentionKind::fused ? " attention=fused" : "";
  return fmt::format(
      "transformer hidden={} heads={} kv_heads={} head_dim={} ffn={} experts={}/{} activation={} "
      "norm={} pre_norm={} "
      "gated={} bias={}{}{} causal={} rotary={} parallel={} cross={} relative={} "
      "dropout={}/{}{}{}{}",
      b.hidden, b.heads, b.kv_heads, b.head_dim, b.ffn, b.experts_per_token, b.experts,
      static_cast<int>(b.activation), static_cast<int>(b.norm), b.pre_norm, b.gated,
      static_cast<int>(b.qkv_bias), static_cast<int>(b.output_bias), static_cast<int>(b.mlp_bias),
      b.causal, b.rotary, b.parallel, b.cross_attention, b.relative_buckets, b.attention_dropout,
      b.residual_dropout, b.qk_norm ? " qk_norm" : "", later, fused);
}

}  // namespace weir::kinds
