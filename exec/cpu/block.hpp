// What the orders of norms of a transformer block share on the CPU: its products, its norms, and
// the lists of a call by name. T = batch * tokens rows; a weight is [out, in], so x W' is a gemm
// with the weight's strides exchanged, dx = dy W is plain, and dW = dy' x has dy's exchanged.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "exec/cpu/kernels/attention_size.hpp"
#include "exec/cpu/kernels/kernels.hpp"
#include "exec/cpu/kernels/matmul.hpp"
#include "exec/cpu/workbench.hpp"
#include "exec/device/backend.hpp"
#include "exec/rank/block_places.hpp"
#include "exec/rank/block_size.hpp"
#include "plan/model/layer_shape.hpp"

namespace weir::cpu {

// Two tiles of rows of scores fit into a sample of the residual stream.
[[nodiscard]] AttentionSize attention_size(const TransformerShape& shape, const BlockSize& size);

// Of a gated MLP both halves.
[[nodiscard]] std::int64_t up_width(const TransformerShape& shape);

// y[T, out] = x[T, in] w' + bias.
[[nodiscard]] Gemm times_weight(std::int64_t rows, std::int64_t in, std::int64_t out, bool bias);
// dx[T, in] = dy[T, out] w.
[[nodiscard]] Gemm gradient_times_weight(std::int64_t rows, std::int64_t in, std::int64_t out);
// dw[out, in] (+)= dy' x.
[[nodiscard]] Gemm weight_gradient(std::int64_t rows, std::int64_t in, std::int64_t out,
                                   bool accumulate);
// The gradient of what the MLP's activation gave; of a gated MLP it is put where u's second half
// has its place.
[[nodiscard]] Gemm activated_gradient(const TransformerShape& shape, std::int64_t rows);

// A norm of the residual stream; the shift is null of an RMS norm.
struct BlockNorm {
  const TransformerShape& shape;
  const float* gain;
  const float* shift;
  float* statistics;

  void forward(const float* x, std::int64_t rows, float* y) const;
  // dx (+)= the norm's gradient; gradients: the gain's, and a layer norm's shift's.
  void backward(const float* x, const float* dy, std::int64_t rows, Beta beta, float* dx,
                float* gradients) const;
};

// What a call's lists hold, by name; null where the block has no such weight.
struct BlockCall {
  const TransformerShape& shape;
  const LayerCall& call;
  block_places::WeightPlaces at{shape};
  [[nodiscard]] const float* weight(int place) const {
    return place == block_places::WeightPlaces::kAbsent ? nullptr : call.weights[place].floats();
  }
  [[nodiscard]] float* saved(block_places::Saved which) const { return call.saved[which].floats(); }
  [[nodiscard]] float* carried(block_places::Carried which) const {
    return call.carried[which].floats();
  }
  [[nodiscard]] BlockNorm norm1() const {
    return {shape, weight(at.norm1_gain), weight(at.norm1_shift),
            saved(block_places::Saved::statistics1)};
  }
  [[nodiscard]] BlockNorm norm2() const {
    return {shape, weight(at.norm2_gain), weight(at.norm2_shift),
            saved(block_places::Saved::statistics2)};
  }
  // y = x w' + bias, of a weight and its bias by their places.
  void product(Matmul& matmul, const float* x, std::int64_t in, std::int64_t out, int weight_place,
               int bias_place, float* y) const;
  // For the attention's backward, of I's workspace: behind the residual stream's and the context's
  // gradients, or fused in the place of the first.
  [[nodiscard]] float* attention_scratch(const BlockSize& size) const;
  // Between the MLP's products: what is saved of `up` becomes what is saved of `activated`.
  void activate_up(std::int64_t rows) const;
  // The gradient of what the second gives, `d_down` [T, h], becomes that of what the first gives.
  void up_gradient(Matmul& matmul, std::int64_t rows, const float* d_down) const;
};

}  // namespace weir::cpu
