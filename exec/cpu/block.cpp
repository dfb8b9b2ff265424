// Products and norms of a transformer block.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/block.hpp"

namespace weir::cpu {

using block_places::Carried;
using block_places::Saved;
using block_places::WeightPlaces;

AttentionSize attention_size(const TransformerShape& shape, const BlockSize& z) {
  return {.batch = z.batch,
          .s = z.s,
          .heads = z.heads,
          .d = z.d,
          .kv_heads = z.kv_heads,
          .lent = z.h,
          .first_head = z.first_head(),
          .all_heads = z.all_heads(),
          .mask = shape.causal ? KeyMask::causal : KeyMask::none};
}

std::int64_t up_width(const TransformerShape& shape) { return (shape.gated ? 2 : 1) * shape.ffn; }

Gemm times_weight(std::int64_t rows, std::int64_t in, std::int64_t out, bool bias) {
  return {.m = rows,
          .n = out,
          .k = in,
          .a_row = in,
          .b_row = 1,
          .b_column = in,
          .c_row = out,
          .bias = bias};
}

Gemm gradient_times_weight(std::int64_t rows, std::int64_t in, std::int64_t out) {
  return {.m = rows, .n = in, .k = out, .a_row = out, .b_row = in, .c_row = in};
}

Gemm weight_gradient(std::int64_t rows, std::int64_t in, std::int64_t out, bool accumulate) {
  return {.m = out,
          .n = in,
          .k = rows,
          .a_row = 1,
          .a_column = out,
          .b_row = in,
          .c_row = in,
          .accumulate = accumulate};
}

Gemm activated_gradient(const TransformerShape& shape, std::int64_t rows) {
  Gemm gemm = gradient_times_weight(rows, shape.ffn, shape.hidden);
  gemm.c_row = up_width(shape);
  return gemm;
}

void BlockNorm::forward(const float* x, std::int64_t rows, float* y) const {
  const auto epsilon = static_cast<float>(shape.norm_epsilon);
  if (shape.norm == NormKind::rms_norm)
    return rms_norm(x, gain, rows, shape.hidden, epsilon, y, statistics);
  layer_norm(x, gain, shift, rows, shape.hidden, epsilon, y, statistics);
}

void BlockNorm::backward(const float* x, const float* dy, std::int64_t rows, Beta beta, float* dx,
                         float* gradients) const {
  if (shape.norm == NormKind::rms_norm)
    return rms_norm_gradient(x, statistics, gain, dy, rows, shape.hidden, beta, dx, gradients);
  layer_norm_gradient(x, statistics, gain, dy, rows, shape.hidden, beta, dx, gradients,
                      gradients + shape.hidden);
}

void BlockCall::product(Matmul& matmul, const float* x, std::int64_t in, std::int64_t out,
                        int weight_place, int bias_place, float* y) const {
  const std::int64_t rows = call.batch * call.seq_length;
  matmul.run(times_weight(rows, in, out, bias_place != WeightPlaces::kAbsent), x,
             weight(weight_place), weight(bias_place), y);
}

float* BlockCall::attention_scratch(const BlockSize& size) const {
  const bool fused = shape.attention == AttentionKind::fused;
  return call.workspace.floats() + (fused ? size.first() : size.third());
}

void BlockCall::activate_up(std::int64_t rows) const {
  if (shape.gated)
    return gate(shape.activation, saved(Saved::up), rows, shape.ffn, saved(Saved::activated));
  activate(shape.activation, saved(Saved::up), rows * shape.ffn, saved(Saved::activated));
}

void BlockCall::up_gradient(Matmul& matmul, std::int64_t rows, const float* d_down) const {
  float* d_up = carried(Carried::up_gradient);
  matmul.run(activated_gradient(shape, rows), d_down, weight(at.down_w), nullptr,
             shape.gated ? d_up + shape.ffn : d_up);
  if (shape.gated) return gate_gradient(shape.activation, saved(Saved::up), rows, shape.ffn, d_up);
  activate_gradient(shape.activation, saved(Saved::up), rows * shape.ffn, d_up);
}

}  // namespace weir::cpu
