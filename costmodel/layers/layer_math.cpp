// FLOPs and bytes of layers from their shapes (docs/theory.md 5.1 and 5.2).
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/layers/layer_math.hpp"

#include "plan/model/layer_kinds.hpp"

namespace weir {

Flops forward_flops(const Layer& layer, std::int64_t seq_length) {
  return std::visit(
      [seq_length](const auto& shape) { return kinds::forward_flops(shape, seq_length); },
      layer.shape);
}

CoreFlops core_flops(const TransformerShape& block, std::int64_t seq_length) {
  const auto s = static_cast<double>(seq_length);
  // A query's products with keys are as wide as these, those with values as wide as those.
  const auto wide = static_cast<double>(block.heads * block.head_dim),
             deep = static_cast<double>(block.heads * value_dim(block));
  const bool fused = block.attention == AttentionKind::fused;
  const double cores = block.cross_attention ? 2 : 1;
  // A decoder's cross attention sees every key.
  const double seen = fused && block.causal ? cores - 0.5 : cores;
  const double each = 2 * s * keys_seen(block, s) * seen;
  return {Flops((wide + deep) * each), Flops(((fused ? 3 : 2) * wide + 2 * deep) * each)};
}

Flops executed_flops(const Layer& layer, std::int64_t seq_length) {
  const Flops model = forward_flops(layer, seq_length);
  const auto* block = std::get_if<TransformerShape>(&layer.shape);
  if (block == nullptr || block->attention == AttentionKind::unfused) return model;
  TransformerShape unfused = *block;
  unfused.attention = AttentionKind::unfused;
  return model + (core_flops(*block, seq_length).forward - core_flops(unfused, seq_length).forward);
}

LayerShares layer_shares(const Layer& layer, std::int64_t seq_length) {
  const Treatment& treated = layer.treated;
  const double forward = forward_flops(layer, seq_length).count();
  if (!treated.frozen || forward == 0)
    return {1, treated.backward ? 1.0 : 0.0, treated.frozen ? 0.0 : 1.0};
  const auto* block = std::get_if<TransformerShape>(&layer.shape);
  if (block == nullptr) return {1, treated.backward ? 1.0 : 0.0, 0};
  TransformerShape unfused = *block;
  unfused.attention = AttentionKind::unfused;
  const double core = core_flops(unfused, seq_length).forward.count() / forward;
  double adapters = 0;
  for (const AdapterPart& adapter : adapters_of(*block, treated.adapters, 1, 1)) {
    const std::int64_t tokens =
        adapter.tokens == AdapterTokens::visits ? visits(*block, seq_length) : seq_length;
    adapters += 2.0 * static_cast<double>(tokens * adapter.parameters()) / forward;
  }
  // A frozen layer's backward has dx alone: once its products, and its core, which has two inputs,
  // twice.
  return {1 + adapters, treated.backward ? 1 + core + adapters : 0, adapters};
}

Flops training_flops(const Model& model, std::int64_t seq_length) {
  Flops whole{0}, others{0};
  for (const Layer& layer : model.layers) {
    const Flops forward = forward_flops(layer, seq_length);
    const LayerShares shares = layer_shares(layer, seq_length);
    if (layer.treated.frozen) {
      others += forward * (shares.forward + shares.input + shares.weights);
    } else {
      whole += forward;
    }
  }
  // A trained product is done three times: forward, and for both gradients.
  return whole * 3.0 + others;
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
