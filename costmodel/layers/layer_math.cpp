// SPDX-License-Identifier: Apache-2.0
#include "costmodel/layers/layer_math.hpp"

#include <set>

#include "plan/model/layer_tensors.hpp"

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

// The first block of a T5 stack makes the bias of all its blocks' scores, and each hands it on with
// its output, the mask added: for each sample heads x queries x keys (Hugging Face's T5Attention
// and T5Stack).
Bytes position_bias(const Model& model, int layer, std::int64_t seq_length, Dtype dtype,
                    const Split& split) {
  const auto block = [&](int l) {
    return l < static_cast<int>(model.layers.size())
               ? std::get_if<TransformerShape>(&model.layers[static_cast<std::size_t>(l)].shape)
               : nullptr;
  };
  const TransformerShape* reader = block(layer + 1);
  if (reader == nullptr || reader->relative_buckets > 0) return Bytes(0);
  for (int l = layer; l >= 0 && block(l) != nullptr; --l) {
    if (block(l)->relative_buckets == 0) continue;
    return Bytes(reader->heads / split.tp * split.tokens(seq_length) * seq_length *
                 bytes_per_element(dtype));
  }
  return Bytes(0);
}

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

Bytes activation_bytes(const Model& model, int layer, std::int64_t seq_length, Dtype dtype) {
  const auto index = static_cast<std::size_t>(layer);
  const LayerTensors tensors = layer_tensors(model.layers[index], seq_length, dtype);
  std::int64_t bytes = 0;
  for (const KeptTensor& kept : tensors.saved) bytes += kept.bytes_per_sample;
  if (tensors.saves_input && layer > 0) {
    bytes += boundary_bytes(model.layers[index - 1], seq_length, dtype).count();
  }
  return Bytes(bytes);
}

Bytes boundary_bytes(const Layer& layer, std::int64_t seq_length, Dtype dtype, const Split& split) {
  return Bytes(layer_tensors(layer, seq_length, dtype, split).output_bytes_per_sample);
}

Bytes crossing_bytes(const Model& model, int layer, std::int64_t seq_length, Dtype dtype,
                     const Split& split) {
  const auto output = [&](std::int32_t l) {
    return boundary_bytes(model.layers[static_cast<std::size_t>(l)], seq_length, dtype, split);
  };
  Bytes total = output(layer) + position_bias(model, layer, seq_length, dtype, split);
  std::set<std::int32_t> whole;
  for (const Skip& skip : model.skips) {
    if (skip.from >= layer || skip.to <= layer) continue;
    if (skip.bytes) {
      total += *skip.bytes;
    } else if (whole.insert(skip.from).second) {
      total += output(skip.from);
    }
  }
  return total;
}

}  // namespace weir
