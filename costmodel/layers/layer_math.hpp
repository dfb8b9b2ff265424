// FLOPs and bytes of a layer from its shape, for one sample of s tokens.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "plan/model/model.hpp"
#include "plan/model/model_part.hpp"
#include "plan/words/units.hpp"

namespace weir {

// Multiply-adds of matrix products count two (Narayanan et al., SC 2021, appendix): for a block of
// hidden h, s (2h(q + 2kv) + 2qh + 2 m h f) + 4 s^2 q with q = heads x head_dim and m MLP matrices
// (2, gated 3), experts that a token visits counted each, and 2 s h E for the router over E
// experts; cross attention the attention's terms again (its keys are as many as its queries); a
// head 2 s h V, and 2 s h^2 for a dense layer before it, s = 1 where one position is pooled; an
// embedding of patches 2 (s - 1) p h for p values a patch. Element-wise work is left out. Sized
// layers say theirs; of timed ones nothing is known: 0.
[[nodiscard]] Flops forward_flops(const Layer& layer, std::int64_t seq_length);
// What a block's attention core - scores, softmax, their product with the values - executes in one
// pass, in matrix products of 2 s^2 q each over s queries and s keys: unfused 2 in F, and 4 in the
// backward (of probabilities and values, of queries and keys). Fused, the backward makes the scores
// again: 5, hence 2.5 times F; and of a causal mask only the half with keys to see is computed (as
// FlashAttention's own benchmark counts: Dao-AILab/flash-attention,
// benchmarks/benchmark_flash_attention.py: 4 s^2 heads d forward, half of it causal, backward 2.5
// times). Unlike the model's FLOPs, these depend on how the plan runs it. Twice with cross
// attention.
struct CoreFlops {
  Flops forward{0};
  Flops backward{0};
};
[[nodiscard]] CoreFlops core_flops(const TransformerShape& block, std::int64_t seq_length);
// forward_flops with the core as it is executed.
[[nodiscard]] Flops executed_flops(const Layer& layer, std::int64_t seq_length);
// Of a layer's passes, what each computes over the layer's own forward: 1, 1 and 1 where all is
// trained, the core's products of attention counted in I, where both of their gradients are made. A
// frozen layer has no W, what stands before all that is trained no I, and adapters add theirs to
// each pass.
struct LayerShares {
  double forward = 1, input = 1, weights = 1;
};
[[nodiscard]] LayerShares layer_shares(const Layer& layer, std::int64_t seq_length);
// The model FLOPs of all passes: three times the forward's where all is trained (one product for
// the input, one for the weights).
[[nodiscard]] Flops training_flops(const Model& model, std::int64_t seq_length);

// What a sample keeps from F to its backward: saved tensors and kept input.
[[nodiscard]] Bytes activation_bytes(const ModelPart& part, int layer);

}  // namespace weir
