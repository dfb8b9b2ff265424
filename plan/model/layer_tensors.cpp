// The tensors of each layer kind. Legend: s tokens a sample (rows and keys: see Builder), h hidden,
// f feed-forward width, a heads, V vocabulary; sizes are per sample. Dropout masks are never kept:
// they are drawn again from their counters.
// SPDX-License-Identifier: Apache-2.0
#include "plan/model/layer_tensors.hpp"

#include <functional>
#include <numeric>

namespace weir {
namespace {

using Init = ParameterTensor::Init;

struct Builder {
  std::int64_t s;        // of this device: under cp its share
  std::int64_t keys;     // tokens attended to: the whole sequence
  std::int64_t rows;     // tokens of what tp does not split
  std::int64_t element;  // bytes

  // x = token[id] + position[p], dropped out; of images, the class token and the projected patches
  // in place of tokens. W scatters the output gradient into the tables.
  LayerTensors operator()(const EmbeddingShape& e) const {
    LayerTensors t;
    if (e.patch > 0) {
      t.parameters.push_back({"class_token", {e.hidden}, Init::normal, false, ""});
      t.parameters.push_back({"patch.weight", {e.hidden, e.patch}, Init::normal, true, ""});
      t.parameters.push_back({"patch.bias", {e.hidden}, Init::zeros, false, ""});
      t.saved.push_back({"patches", (s - 1) * e.patch * element, KeptUntil::W});
    } else {
      t.parameters.push_back(
          {"token", {e.vocabulary, e.hidden}, Init::normal, true, e.tied ? "token" : ""});
    }
    if (e.positions > 0)
      t.parameters.push_back({"position", {e.positions, e.hidden}, Init::normal, true, ""});
    if (e.token_types > 0)
      t.parameters.push_back({"token_type", {e.token_types, e.hidden}, Init::normal, true, ""});
    if (e.norm) {
      add_norm(t, "norm", e.hidden, NormKind::layer_norm);
      t.saved.push_back({"sum", rows * e.hidden * element, KeptUntil::I});
      t.saved.push_back({"norm.statistics", 2 * rows * 4, KeptUntil::I});
    }
    t.output_bytes_per_sample = rows * e.hidden * element;
    t.w_needs_output_gradient = true;
    return t;
  }

  // n1 = norm(x); q,k,v = n1 Wqkv; p = softmax(q k'); c = drop(p) v; y1 = x + drop(c Wo); n2 =
  // norm(y1); u = n2 Wup; g = gelu(u); y = y1 + drop(g Wdown). Post-norm (BERT): the products read
  // x and n1 = norm(x + drop(c Wo)), and y = norm(n1 + drop(g Wdown)). Parallel (GPT-NeoX): both
  // norms read x. With cross attention (T5's decoder) a third norm, products and softmax stand
  // between; the encoder's output is a skip's tensor and counted with the boundary it crosses.
  LayerTensors operator()(const TransformerShape& b) const {
    LayerTensors t;
    const std::int64_t tokens = rows * b.hidden * element;
    add_norm(t, "attention.norm", b.hidden, b.norm);
    add_attention(t, b);
    if (b.relative_buckets > 0) {
      t.parameters.push_back(
          {"attention.relative", {b.relative_buckets, b.heads}, Init::normal, true, ""});
    }
    t.saved.push_back({"attention.norm.statistics", 2 * rows * 4, KeptUntil::I});
    t.saved.push_back(
        {b.pre_norm ? "attention.normed" : "attention.sum", tokens, until(b.pre_norm)});
    save_attention(t, b);
    if (b.cross_attention) add_cross_attention(t, b);
    add_norm(t, "mlp.norm", b.hidden, b.norm);
    if (!b.parallel) t.saved.push_back({"mlp.input", tokens, until(!b.pre_norm)});
    t.saved.push_back({"mlp.norm.statistics", 2 * rows * 4, KeptUntil::I});
    t.saved.push_back({b.pre_norm ? "mlp.normed" : "mlp.sum", tokens, until(b.pre_norm)});
    add_mlp(t, b);
    t.output_bytes_per_sample = tokens;
    t.saves_input = true;
    t.input_until = until(!b.pre_norm);
    t.w_needs_output_gradient = true;
    carry_gradients(t, b);
    const bool fused = b.attention == AttentionKind::fused;
    const std::int64_t scores = fused ? 0 : s * keys;
    const std::int64_t row_sums =
        fused ? b.heads * s * 4 : 0;  // of a fused backward: context times its gradient
    const std::int64_t gathered = rows < s ? s * b.hidden * element : 0;  // of sequence parallelism
    t.workspace_f_bytes_per_sample = scores * element + gathered;
    t.workspace_i_bytes_per_sample =
        (2 * s * b.hidden + 2 * scores) * element + row_sums + gathered;
    t.workspace_w_bytes_per_sample = s * b.hidden * element + gathered;
    return t;
  }

  LayerTensors operator()(const NormShape& n) const {
    LayerTensors t;
    add_norm(t, "norm", n.hidden, n.kind);
    t.output_bytes_per_sample = rows * n.hidden * element;
    t.saves_input = true;
    t.input_until = KeptUntil::I;
    t.saved = {{"statistics", 2 * rows * 4, KeptUntil::I}};
    t.carried = {{"norm.gradients", 2 * n.hidden * 4, KeptUntil::W}};
    return t;
  }

  // F leaves the gradient of the logits, (softmax - target) / tokens, in their place.
  LayerTensors operator()(const HeadShape& head) const {
    LayerTensors t;
    const std::int64_t positions = head.pooled ? 1 : s;
    if (head.dense != HeadDense::none) add_dense(t, head, positions);
    if (head.vocabulary > 0) {
      t.parameters.push_back(
          {"weight", {head.vocabulary, head.hidden}, Init::normal, true, head.tied ? "token" : ""});
    }
    if (head.bias) t.parameters.push_back({"bias", {head.vocabulary}, Init::zeros, false, ""});
    t.saves_input = true;
    t.input_until = KeptUntil::W;
    t.saved.push_back(
        {"logits", positions * logits_row(head.vocabulary, element) * element, KeptUntil::W});
    if (rows < s && !head.pooled) {
      t.workspace_f_bytes_per_sample = t.workspace_i_bytes_per_sample =
          t.workspace_w_bytes_per_sample = s * head.hidden * element;
    }
    return t;
  }

  LayerTensors operator()(const TimedShape& timed) const {
    LayerTensors t;
    if (timed.parameters > 0)
      t.parameters.push_back({"weight", {timed.parameters}, Init::normal, true, ""});
    t.output_bytes_per_sample = timed.boundary.count();
    if (timed.activation.count() > 0)
      t.saved = {{"activation", timed.activation.count(), KeptUntil::W}};
    return t;
  }

  LayerTensors operator()(const SizedShape& sized) const {
    LayerTensors t;
    if (sized.parameters > 0)
      t.parameters.push_back({"weight", {sized.parameters}, Init::normal, true, ""});
    t.output_bytes_per_sample = sized.output * element;
    t.saves_input = sized.keeps_input;
    t.w_needs_output_gradient = sized.parameters > 0;
    if (sized.kept > 0) t.saved = {{"kept", sized.kept * element, KeptUntil::W}};
    return t;
  }

  // What a weight gradient reads must stay until W, the rest goes with I.
  static KeptUntil until(bool read_by_w) { return read_by_w ? KeptUntil::W : KeptUntil::I; }

  static std::int64_t qkv_width(const TransformerShape& b) {
    return (b.heads + 2 * b.kv_heads) * b.head_dim;
  }
  static std::int64_t up_width(const TransformerShape& b) { return (b.gated ? 2 : 1) * b.ffn; }

  static void add_product(LayerTensors& t, const std::string& name, std::vector<std::int64_t> shape,
                          Init init, bool bias) {
    const std::int64_t out = shape.front();
    t.parameters.push_back({name + ".weight", std::move(shape), init, true, ""});
    if (bias) t.parameters.push_back({name + ".bias", {out}, Init::zeros, false, ""});
  }

  static void add_attention(LayerTensors& t, const TransformerShape& b) {
    add_product(t, "attention.qkv", {qkv_width(b), b.hidden}, Init::normal, b.qkv_bias);
    add_product(t, "attention.output", {b.hidden, b.heads * b.head_dim}, Init::residual_normal,
                b.output_bias);
  }

  void save_attention(LayerTensors& t, const TransformerShape& b) const {
    t.saved.push_back({"attention.qkv", s * qkv_width(b) * element, KeptUntil::I});
    t.saved.push_back(core("attention", b));
    t.saved.push_back({"attention.context", s * b.heads * b.head_dim * element, KeptUntil::W});
  }

  // What the attention's core keeps: its probabilities, or fused the log-sum-exp of each row's
  // scores, in fp32.
  [[nodiscard]] KeptTensor core(const std::string& attention, const TransformerShape& b) const {
    if (b.attention == AttentionKind::fused) {
      return {attention + ".statistics", b.heads * s * 4, KeptUntil::I, true};
    }
    return {attention + ".probabilities", b.heads * s * keys * element, KeptUntil::I, true};
  }

  // Queries from the decoder, keys and values from the encoder's output, which is as long as the
  // decoder's input.
  void add_cross_attention(LayerTensors& t, const TransformerShape& b) const {
    const std::int64_t q = b.heads * b.head_dim, kv = 2 * b.kv_heads * b.head_dim;
    add_norm(t, "cross.norm", b.hidden, b.norm);
    add_product(t, "cross.query", {q, b.hidden}, Init::normal, b.qkv_bias);
    add_product(t, "cross.key_value", {kv, b.hidden}, Init::normal, b.qkv_bias);
    add_product(t, "cross.output", {b.hidden, q}, Init::residual_normal, b.output_bias);
    t.saved.push_back({"cross.input", rows * b.hidden * element, KeptUntil::I});
    t.saved.push_back({"cross.norm.statistics", 2 * rows * 4, KeptUntil::I});
    t.saved.push_back({"cross.normed", rows * b.hidden * element, KeptUntil::W});
    t.saved.push_back({"cross.query", s * q * element, KeptUntil::I});
    t.saved.push_back({"cross.key_value", s * kv * element, KeptUntil::I});
    t.saved.push_back(core("cross", b));
    t.saved.push_back({"cross.context", s * q * element, KeptUntil::W});
  }

  // Experts: each token is copied to those it visits, in the order of experts; their outputs are
  // weighed by the router's probabilities, whose gradient needs them.
  void add_mlp(LayerTensors& t, const TransformerShape& b) const {
    const std::int64_t up = up_width(b);
    if (b.experts == 1) {
      add_product(t, "mlp.up", {up, b.hidden}, Init::normal, b.mlp_bias);
      add_product(t, "mlp.down", {b.hidden, b.ffn}, Init::residual_normal, b.mlp_bias);
      t.saved.push_back({"mlp.up", s * up * element, KeptUntil::I});
      t.saved.push_back({"mlp.activated", s * b.ffn * element, KeptUntil::W});
      return;
    }
    const std::int64_t visits = s * b.experts_per_token;
    t.parameters.push_back({"mlp.router.weight", {b.experts, b.hidden}, Init::normal, true, ""});
    t.parameters.push_back({"mlp.up.weight", {b.experts, up, b.hidden}, Init::normal, true, ""});
    if (b.mlp_bias)
      t.parameters.push_back({"mlp.up.bias", {b.experts, up}, Init::zeros, false, ""});
    t.parameters.push_back(
        {"mlp.down.weight", {b.experts, b.hidden, b.ffn}, Init::residual_normal, true, ""});
    if (b.mlp_bias)
      t.parameters.push_back({"mlp.down.bias", {b.experts, b.hidden}, Init::zeros, false, ""});
    t.saved.push_back({"mlp.router.probabilities", s * b.experts * element, KeptUntil::I});
    t.saved.push_back({"mlp.visits", visits * b.hidden * element, KeptUntil::W});
    t.saved.push_back({"mlp.up", visits * up * element, KeptUntil::I});
    t.saved.push_back({"mlp.activated", visits * b.ffn * element, KeptUntil::W});
    t.saved.push_back({"mlp.answers", visits * b.hidden * element, KeptUntil::I});
  }

  void carry_gradients(LayerTensors& t, const TransformerShape& b) const {
    const std::int64_t visits = s * b.experts_per_token;
    t.carried.push_back({"mlp.up.gradient", visits * up_width(b) * element, KeptUntil::W});
    if (b.experts > 1) {
      t.carried.push_back({"mlp.router.gradient", s * b.experts * element, KeptUntil::W});
      t.carried.push_back({"mlp.answers.gradient", visits * b.hidden * element, KeptUntil::W});
    }
    t.carried.push_back({"attention.output.gradient", rows * b.hidden * element, KeptUntil::W});
    t.carried.push_back({"attention.qkv.gradient", s * qkv_width(b) * element, KeptUntil::W});
    if (b.cross_attention) {
      t.carried.push_back({"cross.output.gradient", rows * b.hidden * element, KeptUntil::W});
      t.carried.push_back({"cross.gradients", s * qkv_width(b) * element, KeptUntil::W});
    }
    const std::int64_t norms = b.cross_attention ? 3 : 2;
    t.carried.push_back({"norm.gradients", norms * 2 * b.hidden * 4, KeptUntil::W});
  }

  // The pooler's output, and of a transform also what its activation and norm read.
  void add_dense(LayerTensors& t, const HeadShape& head, std::int64_t positions) const {
    const std::int64_t bytes = positions * head.hidden * element;
    add_product(t, "dense", {head.hidden, head.hidden}, Init::normal, true);
    t.saved.push_back({"dense.output", bytes, KeptUntil::W});
    if (head.dense == HeadDense::transform) {
      add_norm(t, "dense.norm", head.hidden, NormKind::layer_norm);
      t.saved.push_back({"dense.activated", bytes, KeptUntil::I});
      t.saved.push_back({"dense.norm.statistics", 2 * positions * 4, KeptUntil::I});
      t.saved.push_back({"dense.normed", bytes, KeptUntil::W});
    }
    t.carried.push_back({"dense.gradient", bytes, KeptUntil::W});
  }

  static void add_norm(LayerTensors& t, const std::string& name, std::int64_t hidden,
                       NormKind kind) {
    t.parameters.push_back({name + ".gain", {hidden}, Init::ones, false, ""});
    if (kind == NormKind::layer_norm)
      t.parameters.push_back({name + ".shift", {hidden}, Init::zeros, false, ""});
  }
};

}  // namespace

std::int64_t ParameterTensor::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

LayerTensors layer_tensors(const Layer& layer, std::int64_t seq_length, Dtype dtype,
                           const Split& split) {
  const Builder builder{split.tokens(seq_length), seq_length, split.rows(seq_length),
                        bytes_per_element(dtype)};
  return split.tp == 1 ? std::visit(builder, layer.shape)
                       : std::visit(builder, shard(layer.shape, split.tp));
}

}  // namespace weir
