// FLOPs and bytes of layers from their shapes (docs/theory.md 5.1 and 5.2).
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/layers/layer_math.hpp"

namespace weir {
namespace {

struct Forward {
  double s;
  double operator()(const EmbeddingShape& e) const {
    return e.patch == 0
               ? 0
               : 2 * (s - 1) * static_cast<double>(e.patch) * static_cast<double>(e.hidden);
  }
  double operator()(const NormShape&) const { return 0; }
  double operator()(const TimedShape&) const { return 0; }
  double operator()(const SizedShape& sized) const { return sized.forward.count(); }
  double operator()(const HeadShape& head) const {
    const std::int64_t outputs =
        head.vocabulary + (head.dense == HeadDense::none ? 0 : head.hidden);
    return 2 * (head.pooled ? 1 : s) * static_cast<double>(head.hidden) *
           static_cast<double>(outputs);
  }
  double operator()(const TransformerShape& b) const {
    const auto h = static_cast<double>(b.hidden);
    const auto q = static_cast<double>(b.heads * b.head_dim);
    const auto kv = static_cast<double>(b.kv_heads * b.head_dim);
    const double attention = s * (2 * h * (q + 2 * kv) + 2 * q * h) + 4 * s * s * q;
    const double experts = b.experts > 1 ? static_cast<double>(b.experts_per_token) : 1;
    const double mlp = s * 2 * (b.gated ? 3 : 2) * h * static_cast<double>(b.ffn) * experts;
    const double router = b.experts > 1 ? s * 2 * h * static_cast<double>(b.experts) : 0;
    return attention * (b.cross_attention ? 2 : 1) + mlp + router;
  }
};

}  // namespace

Flops forward_flops(const Layer& layer, std::int64_t seq_length) {
  return Flops(std::visit(Forward{static_cast<double>(seq_length)}, layer.shape));
}

CoreFlops core_flops(const TransformerShape& block, std::int64_t seq_length) {
  const auto s = static_cast<double>(seq_length),
             q = static_cast<double>(block.heads * block.head_dim);
  const bool fused = block.attention == AttentionKind::fused;
  const double cores = block.cross_attention ? 2 : 1;
  // A decoder's cross attention sees every key.
  const double seen = fused && block.causal ? cores - 0.5 : cores;
  const double product = 2 * s * s * q * seen;
  return {Flops(2 * product), Flops((fused ? 5 : 4) * product)};
}

Flops executed_flops(const Layer& layer, std::int64_t seq_length) {
  const Flops model = forward_flops(layer, seq_length);
  const auto* block = std::get_if<TransformerShape>(&layer.shape);
  if (block == nullptr || block->attention == AttentionKind::unfused) return model;
  TransformerShape unfused = *block;
  unfused.attention = AttentionKind::unfused;
  return model + (core_flops(*block, seq_length).forward - core_flops(unfused, seq_length).forward);
}

Flops training_flops(const Model& model, std::int64_t seq_length) {
  Flops total{0};
  for (const Layer& layer : model.layers) total += forward_flops(layer, seq_length);
  return total * 3.0;
}

Bytes activation_bytes(const ModelPart& part, int layer) {
  const LayerTensors& tensors = part.layer(layer).tensors;
  std::int64_t bytes = 0;
  for (const KeptTensor& kept : tensors.saved) bytes += kept.bytes_per_sample;
  if (tensors.saves_input && layer > 0)
    bytes += part.layer(layer - 1).tensors.output_bytes_per_sample;
  return Bytes(bytes);
}

}  // namespace weir
