// The tensors of each layer kind. Legend: s tokens a sample, h hidden, f feed-forward width, a heads, V vocabulary;
// sizes are per sample. Dropout masks are never kept: they are drawn again from their counters.
// SPDX-License-Identifier: Apache-2.0
#include "plan/layer_tensors.hpp"

#include <functional>
#include <numeric>

namespace weir {
namespace {

using Init = ParameterTensor::Init;

struct Builder {
  std::int64_t s;
  std::int64_t element;  // bytes

  // x = token[id] + position[p], dropped out. W scatters the output gradient into the tables.
  LayerTensors operator()(const EmbeddingShape& e) const {
    LayerTensors t;
    t.parameters.push_back({"token", {e.vocabulary, e.hidden}, Init::normal, true, e.tied ? "token" : ""});
    if (e.positions > 0) t.parameters.push_back({"position", {e.positions, e.hidden}, Init::normal, true, ""});
    if (e.token_types > 0) t.parameters.push_back({"token_type", {e.token_types, e.hidden}, Init::normal, true, ""});
    if (e.norm) add_norm(t, "norm", e.hidden, NormKind::layer_norm);
    t.output_bytes_per_sample = s * e.hidden * element;
    t.w_needs_output_gradient = true;
    return t;
  }

  // n1 = norm(x); q,k,v = n1 Wqkv; p = softmax(q k'); c = drop(p) v; y1 = x + drop(c Wo);
  // n2 = norm(y1); u = n2 Wup; g = gelu(u); y = y1 + drop(g Wdown).
  LayerTensors operator()(const TransformerShape& b) const {
    LayerTensors t;
    const std::int64_t qkv = (b.heads + 2 * b.kv_heads) * b.head_dim;
    const std::int64_t context = b.heads * b.head_dim;
    add_norm(t, "attention.norm", b.hidden, b.norm);
    t.parameters.push_back({"attention.qkv.weight", {qkv, b.hidden}, Init::normal, true, ""});
    if (b.qkv_bias) t.parameters.push_back({"attention.qkv.bias", {qkv}, Init::zeros, false, ""});
    t.parameters.push_back({"attention.output.weight", {b.hidden, context}, Init::residual_normal, true, ""});
    if (b.output_bias) t.parameters.push_back({"attention.output.bias", {b.hidden}, Init::zeros, false, ""});
    add_norm(t, "mlp.norm", b.hidden, b.norm);
    const std::int64_t up = (b.gated ? 2 : 1) * b.ffn;
    t.parameters.push_back({"mlp.up.weight", {up, b.hidden}, Init::normal, true, ""});
    if (b.mlp_bias) t.parameters.push_back({"mlp.up.bias", {up}, Init::zeros, false, ""});
    t.parameters.push_back({"mlp.down.weight", {b.hidden, b.ffn}, Init::residual_normal, true, ""});
    if (b.mlp_bias) t.parameters.push_back({"mlp.down.bias", {b.hidden}, Init::zeros, false, ""});

    t.output_bytes_per_sample = s * b.hidden * element;
    t.saves_input = true;
    t.input_until = KeptUntil::I;
    t.w_needs_output_gradient = true;
    const std::int64_t scores = s * s;
    t.saved = {{"attention.norm.statistics", 2 * s * 4, KeptUntil::I},
               {"attention.normed", s * b.hidden * element, KeptUntil::W},
               {"attention.qkv", s * qkv * element, KeptUntil::I},
               {"attention.probabilities", b.heads * scores * element, KeptUntil::I},
               {"attention.context", s * context * element, KeptUntil::W},
               {"mlp.input", s * b.hidden * element, KeptUntil::I},
               {"mlp.norm.statistics", 2 * s * 4, KeptUntil::I},
               {"mlp.normed", s * b.hidden * element, KeptUntil::W},
               {"mlp.up", s * up * element, KeptUntil::I},
               {"mlp.activated", s * b.ffn * element, KeptUntil::W}};
    t.carried = {{"mlp.up.gradient", s * up * element, KeptUntil::W},
                 {"attention.output.gradient", s * b.hidden * element, KeptUntil::W},
                 {"attention.qkv.gradient", s * qkv * element, KeptUntil::W},
                 {"norm.gradients", 4 * b.hidden * 4, KeptUntil::W}};
    t.workspace_f_bytes_per_sample = scores * element;
    t.workspace_i_bytes_per_sample = (2 * s * b.hidden + 2 * scores) * element;
    t.workspace_w_bytes_per_sample = s * b.hidden * element;
    return t;
  }

  LayerTensors operator()(const NormShape& n) const {
    LayerTensors t;
    add_norm(t, "norm", n.hidden, n.kind);
    t.output_bytes_per_sample = s * n.hidden * element;
    t.saves_input = true;
    t.input_until = KeptUntil::I;
    t.saved = {{"statistics", 2 * s * 4, KeptUntil::I}};
    t.carried = {{"norm.gradients", 2 * n.hidden * 4, KeptUntil::W}};
    return t;
  }

  // F leaves the gradient of the logits, (softmax - target) / tokens, in their place.
  LayerTensors operator()(const HeadShape& head) const {
    LayerTensors t;
    const std::int64_t positions = head.pooled ? 1 : s;
    t.parameters.push_back({"weight", {head.vocabulary, head.hidden}, Init::normal, true, head.tied ? "token" : ""});
    if (head.bias) t.parameters.push_back({"bias", {head.vocabulary}, Init::zeros, false, ""});
    t.saves_input = true;
    t.input_until = KeptUntil::W;
    t.saved = {{"logits", positions * head.vocabulary * element, KeptUntil::W}};
    return t;
  }

  LayerTensors operator()(const TimedShape& timed) const {
    LayerTensors t;
    if (timed.parameters > 0) t.parameters.push_back({"weight", {timed.parameters}, Init::normal, true, ""});
    t.output_bytes_per_sample = timed.boundary.count();
    if (timed.activation.count() > 0) t.saved = {{"activation", timed.activation.count(), KeptUntil::W}};
    return t;
  }

  static void add_norm(LayerTensors& t, const std::string& name, std::int64_t hidden, NormKind kind) {
    t.parameters.push_back({name + ".gain", {hidden}, Init::ones, false, ""});
    if (kind == NormKind::layer_norm) t.parameters.push_back({name + ".shift", {hidden}, Init::zeros, false, ""});
  }
};

}  // namespace

std::int64_t ParameterTensor::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

LayerTensors layer_tensors(const Layer& layer, std::int64_t seq_length, Dtype dtype) {
  return std::visit(Builder{seq_length, bytes_per_element(dtype)}, layer.shape);
}

}  // namespace weir
