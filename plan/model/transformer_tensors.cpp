// What a transformer block learns and keeps.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "plan/model/layer_kinds.hpp"

namespace weir::kinds {
namespace {

using Init = ParameterTensor::Init;

// What a weight gradient reads must stay until W, the rest goes with I.
KeptUntil until(bool read_by_w) { return read_by_w ? KeptUntil::W : KeptUntil::I; }
constexpr KeptUntil kUntilI = KeptUntil::I, kUntilW = KeptUntil::W;

std::int64_t qkv_width(const TransformerShape& b) {
  return (b.heads + b.kv_heads) * b.head_dim + b.kv_heads * value_dim(b);
}
// Of a token, what latent attention makes queries, keys and values of.
std::int64_t latent_width(const TransformerShape& b) {
  return b.latent.query + b.latent.key_value + b.latent.rotary;
}
std::int64_t up_width(const TransformerShape& b) { return (b.gated ? 2 : 1) * b.ffn; }
std::int64_t shared_up_width(const TransformerShape& b) { return (b.gated ? 2 : 1) * b.shared_ffn; }

// Lists what a block learns and keeps, of a sample on one device. Numbers of tokens that tensor
// parallelism leaves whole count by `rows`, all others by `s`.
class BlockTensors {
 public:
  BlockTensors(const TransformerShape& block, const DeviceTokens& tokens)
      : b_(block),
        z_(tokens),
        stream_(tokens.rows * block.hidden),
        visited_(block.experts > 1 ? visits(block, tokens.s) : tokens.s) {}

  LayerTensors all() && {
    norm("attention.norm");
    add_attention();
    save_normed("attention");
    save_attention();
    if (b_.cross_attention) add_cross_attention();
    if (b_.post_norms) save_post_norms();
    if (!b_.single_norm) norm("mlp.norm");
    if (!b_.parallel) save("mlp.input", stream_, until(!b_.pre_norm));
    if (!b_.single_norm) save_normed("mlp");
    add_mlp();
    if (b_.qk_norm) save_head_norms();
    // Without a norm before them products read the input itself, and behind one the output's
    // gradient is none of the last product's.
    t_.output_bytes_per_sample = stream_ * z_.element;
    t_.saves_input = true;
    t_.input_until = until(!b_.pre_norm);
    t_.w_needs_output_gradient = b_.pre_norm;
    carry_gradients();
    set_workspaces();
    if (predicts(b_)) add_prediction();
    return std::move(t_);
  }

 private:
  // ---- words ----
  void norm(const std::string& name) {
    add_norm(t_, name, b_.hidden, b_.norm);
    ++norms_;
  }
  void rms_norm(const std::string& name, std::int64_t width) {
    add_norm(t_, name, width, NormKind::rms_norm);
  }
  void product(const std::string& name, std::int64_t out, std::int64_t in, bool bias) {
    add_product(t_, name, {out, in}, Init::normal, bias);
  }
  // One that ends in the residual stream.
  void last_product(const std::string& name, std::int64_t in, bool bias) {
    add_product(t_, name, {b_.hidden, in}, Init::residual_normal, bias);
  }
  void save(const std::string& name, std::int64_t numbers, KeptUntil how_long) {
    t_.saved.push_back({name, numbers * z_.element, how_long});
  }
  // Statistics, in fp32 whatever the number format.
  void save_fp32(const std::string& name, std::int64_t numbers) {
    t_.saved.push_back({name, numbers * 4, kUntilI});
  }
  void carry(const std::string& name, std::int64_t numbers) {
    t_.carried.push_back({name, numbers * z_.element, kUntilW});
  }
  void carry_fp32(const std::string& name, std::int64_t numbers) {
    t_.carried.push_back({name, numbers * 4, kUntilW});
  }
  // A norm's mean and deviation, and its result where products read that, else what it read.
  void save_normed(const std::string& part) {
    save_fp32(part + ".norm.statistics", 2 * z_.rows);
    save(part + (b_.pre_norm ? ".normed" : ".sum"), stream_, until(b_.pre_norm));
  }

  // ---- attention ----
  void add_latent_attention() {
    const LatentAttention& l = b_.latent;
    const std::int64_t queries = b_.heads * b_.head_dim;
    if (l.query > 0) {
      product("attention.query.down", l.query, b_.hidden, false);
      rms_norm("attention.query.norm", l.query);
      product("attention.query.up", queries, l.query, false);
    } else {
      product("attention.query", queries, b_.hidden, false);
    }
    const std::int64_t expanded = b_.heads * (b_.head_dim - l.rotary + l.value);
    product("attention.key_value.down", l.key_value + l.rotary, b_.hidden, false);
    rms_norm("attention.key_value.norm", l.key_value);
    product("attention.key_value.up", expanded, l.key_value, false);
    last_product("attention.output", b_.heads * l.value, b_.output_bias);
  }
  void add_own_attention() {
    product("attention.qkv", projected_width(b_), b_.hidden, b_.qkv_bias);
    if (b_.qk_norm) {
      rms_norm("attention.query.norm", query_gains(b_));
      rms_norm("attention.key.norm", key_gains(b_));
    }
    last_product("attention.output", b_.heads * b_.head_dim, b_.output_bias);
    if (b_.sinks) t_.parameters.push_back({"attention.sinks", {b_.heads}, Init::zeros, false, ""});
  }
  void add_attention() {
    if (b_.latent.key_value > 0) {
      add_latent_attention();
    } else {
      add_own_attention();
    }
    if (b_.relative_buckets == 0) return;
    t_.parameters.push_back(
        {"attention.relative", {b_.relative_buckets, b_.heads}, Init::normal, true, ""});
  }

  // What the inner norms read, their statistics, and what the products behind them read; of tokens
  // that tensor parallelism leaves whole.
  void save_latents() {
    const LatentAttention& l = b_.latent;
    const std::int64_t norms = l.query > 0 ? 2 : 1;
    save("attention.latents", z_.rows * latent_width(b_), kUntilI);
    save_fp32("attention.latents.statistics", norms * z_.rows);
    save("attention.latents.normed", z_.rows * (l.query + l.key_value), kUntilW);
  }
  // Queries and keys as their norms read them, and 1 / deviation of each head's, or of all heads'.
  void save_head_norms() {
    const std::int64_t heads = z_.s * (b_.heads + b_.kv_heads);
    save("attention.query_key", heads * b_.head_dim, kUntilI);
    save_fp32("attention.query_key.statistics", b_.wide_qk_norm ? 2 * z_.s : heads);
  }
  // What the attention's core keeps: its probabilities, or fused the log-sum-exp of each row's
  // scores, in fp32.
  void save_core(const std::string& attention) {
    const std::int64_t rows = b_.heads * z_.s;
    if (b_.attention == AttentionKind::fused) {
      save_fp32(attention + ".statistics", rows);
    } else {
      save(attention + ".probabilities", rows * z_.keys, kUntilI);
    }
    t_.saved.back().rebuilt_by = BlockModule::core_attn;
  }
  void save_attention() {
    save("attention.qkv", z_.s * qkv_width(b_), kUntilI);
    save_core("attention");
    save("attention.context", z_.s * b_.heads * value_dim(b_), kUntilW);
    if (b_.latent.key_value > 0) save_latents();
  }

  // Queries from the decoder, keys and values from the encoder's output, which is as long as the
  // decoder's input.
  void add_cross_attention() {
    const std::int64_t q = b_.heads * b_.head_dim;
    const std::int64_t kv = 2 * b_.kv_heads * b_.head_dim;
    norm("cross.norm");
    product("cross.query", q, b_.hidden, b_.qkv_bias);
    product("cross.key_value", kv, b_.hidden, b_.qkv_bias);
    last_product("cross.output", q, b_.output_bias);
    save("cross.input", stream_, kUntilI);
    save_fp32("cross.norm.statistics", 2 * z_.rows);
    save("cross.normed", stream_, kUntilW);
    save("cross.query", z_.s * q, kUntilI);
    save("cross.key_value", z_.s * kv, kUntilI);
    save_core("cross");
    save("cross.context", z_.s * q, kUntilW);
  }

  // Norms of what attention and MLP give: what they read, and their statistics.
  void save_post_norms() {
    for (const char* of : {"attention", "mlp"}) {
      const std::string name = std::string(of) + ".answer";
      norm(name + ".norm");
      save(name, stream_, kUntilI);
      save_fp32(name + ".norm.statistics", 2 * z_.rows);
    }
  }

  // ---- MLP ----
  // One MLP that every token passes beside the experts it was sent to.
  void add_shared_experts() {
    product("mlp.shared.up", shared_up_width(b_), b_.hidden, false);
    last_product("mlp.shared.down", b_.shared_ffn, false);
    save("mlp.shared.up", z_.s * shared_up_width(b_), kUntilI);
    save("mlp.shared.activated", z_.s * b_.shared_ffn, kUntilW);
    if (!b_.shared_gate) return;
    product("mlp.shared.gate", 1, b_.hidden, false);
    // The gate's gradient needs what it weighs.
    save("mlp.shared.answers", z_.s * b_.hidden, kUntilI);
  }
  void add_mlp() {
    if (b_.experts > 1) return add_experts();
    product("mlp.up", up_width(b_), b_.hidden, b_.mlp_bias);
    last_product("mlp.down", b_.ffn, b_.mlp_bias);
    save("mlp.up", z_.s * up_width(b_), kUntilI);
    save("mlp.activated", z_.s * b_.ffn, kUntilW);
  }
  // Of this device's experts, one matrix behind the other.
  void expert_weight(const std::string& name, std::int64_t out, std::int64_t in, Init init) {
    std::vector<std::int64_t> shape{local_experts(b_), out, in};
    t_.parameters.push_back({name, std::move(shape), init, true, "", experts_apart(b_)});
  }
  void expert_bias(const std::string& name, std::int64_t out) {
    if (!b_.mlp_bias) return;
    std::vector<std::int64_t> shape{local_experts(b_), out};
    t_.parameters.push_back({name, std::move(shape), Init::zeros, false, "", experts_apart(b_)});
  }
  // Experts: each token is copied to those it visits, in the order of experts; their outputs are
  // weighed by the router's probabilities, whose gradient needs them.
  void add_experts() {
    product("mlp.router", b_.experts, b_.hidden, b_.router_bias);
    expert_weight("mlp.up.weight", up_width(b_), b_.hidden, Init::normal);
    expert_bias("mlp.up.bias", up_width(b_));
    expert_weight("mlp.down.weight", b_.hidden, b_.ffn, Init::residual_normal);
    expert_bias("mlp.down.bias", b_.hidden);
    save("mlp.router.probabilities", z_.s * b_.experts, kUntilI);
    save("mlp.visits", visited_ * b_.hidden, kUntilW);
    save("mlp.up", visited_ * up_width(b_), kUntilI);
    save("mlp.activated", visited_ * b_.ffn, kUntilW);
    save("mlp.answers", visited_ * b_.hidden, kUntilI);
    if (b_.shared_ffn > 0) add_shared_experts();
  }

  // ---- between I and W, and beside them ----
  // W multiplies the gradient of each product's output by the input that F kept.
  void carry_gradients() {
    carry("mlp.up.gradient", visited_ * up_width(b_));
    if (b_.experts > 1) {
      carry("mlp.router.gradient", z_.s * b_.experts);
      carry("mlp.answers.gradient", visited_ * b_.hidden);
      if (b_.shared_ffn > 0) carry("mlp.shared.up.gradient", z_.s * shared_up_width(b_));
    }
    carry("attention.output.gradient", stream_);
    carry("attention.qkv.gradient", z_.s * qkv_width(b_));
    if (b_.latent.key_value > 0) carry("attention.latents.gradient", z_.rows * latent_width(b_));
    if (b_.cross_attention) {
      carry("cross.output.gradient", stream_);
      carry("cross.gradients", z_.s * qkv_width(b_));
    }
    // I makes the gradients of gains and shifts beside its own; W adds them.
    carry_fp32("norm.gradients", norms_ * 2 * b_.hidden);
    if (b_.qk_norm) carry_fp32("query_key.norm.gradients", query_gains(b_) + key_gains(b_));
    // Behind a norm the output's gradient is none of the MLP's answer.
    if (!b_.pre_norm) carry("mlp.output.gradient", stream_);
  }

  void set_workspaces() {
    const bool fused = b_.attention == AttentionKind::fused;
    // One head's at a time.
    const std::int64_t scores = fused ? 0 : z_.s * z_.keys;
    const std::int64_t rows = z_.s * b_.hidden;
    // The context's gradient takes turns with that of the residual stream.
    const std::int64_t widest = std::max(b_.hidden, b_.heads * value_dim(b_));
    // Of a fused backward: context times its gradient.
    const std::int64_t row_sums = fused ? b_.heads * z_.s * 4 : 0;
    // Of sequence parallelism: all rows, where a device has its own.
    const std::int64_t gathered = z_.rows < z_.s ? rows * z_.element : 0;
    const std::int64_t in_i = rows + z_.s * widest + 2 * scores;
    const std::int64_t in_w = b_.pre_norm ? rows : 0;
    t_.workspace_f_bytes_per_sample = scores * z_.element + gathered;
    t_.workspace_i_bytes_per_sample = in_i * z_.element + row_sums + gathered;
    t_.workspace_w_bytes_per_sample = in_w * z_.element + gathered;
  }

  // ---- in front of a block that predicts further tokens, and behind it ----
  // The table is the model's.
  void add_prediction() {
    const std::int64_t h = b_.hidden;
    t_.parameters.push_back(
        {"prediction.token", {b_.prediction.vocabulary, h}, Init::normal, true, "token"});
    norm("prediction.embedding.norm");
    norm("prediction.hidden.norm");
    product("prediction.projection", b_.prediction.projected, 2 * h, false);
    norm("prediction.norm");
    const std::vector<KeptTensor> kept = kept_by_prediction(b_, z_);
    t_.saved.insert(t_.saved.end(), kept.begin(), kept.end());
    // The first keeps what came in, which it reads; a later one the last part of that.
    t_.saves_input = b_.prediction.ahead == 1;
    t_.input_until = kUntilI;
    t_.output_bytes_per_sample = (b_.prediction.ahead + 1) * stream_ * z_.element;
    carry("prediction.embedding.gradient", stream_);
    carry("prediction.projected.gradient", stream_);
    carry_fp32("prediction.norm.gradients", 3 * 2 * h);
    t_.w_needs_output_gradient = false;
    if (z_.rows == z_.s) return;
    // Under sequence parallelism all of what is projected is gathered.
    const std::int64_t gathered = 2 * z_.s * h * z_.element;
    t_.workspace_f_bytes_per_sample = std::max(t_.workspace_f_bytes_per_sample, gathered);
    t_.workspace_w_bytes_per_sample = std::max(t_.workspace_w_bytes_per_sample, gathered);
  }

  const TransformerShape& b_;
  const DeviceTokens& z_;
  std::int64_t stream_;   // numbers of the residual stream
  std::int64_t visited_;  // tokens that an MLP's products see
  std::int64_t norms_ = 0;
  LayerTensors t_;
};

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

// n1 = norm(x); q,k,v = n1 Wqkv; p = softmax(q k'); c = drop(p) v; y1 = x + drop(c Wo); n2 =
// norm(y1); u = n2 Wup; g = gelu(u); y = y1 + drop(g Wdown). Post-norm (BERT): the products read
// x and n1 = norm(x + drop(c Wo)), and y = norm(n1 + drop(g Wdown)). Parallel (GPT-NeoX): both
// norms read x. With cross attention (T5's decoder) a third norm, products and softmax stand
// between; the encoder's output is a skip's tensor and counted with the boundary it crosses.
LayerTensors tensors(const TransformerShape& b, const DeviceTokens& z) {
  return BlockTensors(b, z).all();
}

}  // namespace weir::kinds
