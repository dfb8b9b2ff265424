// Sizes, products and norms of a transformer block.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/block.hpp"

#include <algorithm>

namespace weir::cpu {

using block_places::Carried;
using block_places::Saved;
using block_places::WeightPlaces;

BlockSize::BlockSize(const TransformerShape& shape, std::int64_t batch_size,
                     std::int64_t seq_length, const Workbench& on)
    : rows(batch_size * seq_length),
      batch(batch_size),
      s(seq_length),
      h(shape.hidden),
      f(shape.ffn),
      heads(shape.heads),
      kv_heads(shape.kv_heads),
      d(shape.head_dim),
      mask(shape.causal ? KeyMask::causal : KeyMask::none),
      place(on.group == nullptr ? 0 : on.group->place()),
      places(on.group == nullptr ? 1 : on.group->count()),
      own(on.own_rows(rows)),
      room(on.divides_rows ? rows * h : 0) {}

AttentionSize BlockSize::attention() const {
  return {batch, s, heads, d, kv_heads, h, place * heads, places * heads, mask};
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
  float* workspace = call.workspace.floats() + size.room;
  if (shape.attention == AttentionKind::fused) return workspace;
  return workspace + size.rows * (size.h + std::max(size.h, size.q()));
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
