// Embedding, norm and head; the transformer block has a file of its own.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/layers.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "exec/cpu/kernels.hpp"

namespace weir::cpu {
namespace {

const std::int32_t* row_tokens(const LayerCall& call, std::int64_t sample) {
  return call.tokens + sample * (call.seq_length + 1);
}

}  // namespace

DropoutMask mask_of(const LayerCall& call, double probability, DropoutSite site) {
  const DropoutCounter& p = call.dropout;
  return dropout_mask(probability, p.seed, p.step, p.microbatch, p.layer, site);
}

void prepare(const EmbeddingShape&, std::int64_t, std::int64_t, Matmul&) {}

void forward(const EmbeddingShape& shape, const LayerCall& call, Matmul&) {
  const std::int64_t h = shape.hidden;
  const float* token = call.weights[0].floats();
  float* out = call.output.floats();
  for (std::int64_t b = 0; b < call.batch; ++b) {
    for (std::int64_t t = 0; t < call.seq_length; ++t) {
      float* row = out + (b * call.seq_length + t) * h;
      std::memcpy(row, token + row_tokens(call, b)[t] * h, static_cast<std::size_t>(h) * 4);
      if (shape.positions > 0) add(call.weights[1].floats() + t * h, h, row);
    }
  }
  const DropoutMask mask = mask_of(call, shape.dropout, DropoutSite::embedding);
  if (mask.active()) dropout(mask, 0, out, call.batch * call.seq_length * h, out);
}

void backward_input(const EmbeddingShape&, const LayerCall&, Matmul&) {}  // tokens have no gradient

void backward_weight(const EmbeddingShape& shape, const LayerCall& call, Matmul&) {
  const std::int64_t h = shape.hidden;
  float* token = call.gradients[0].floats();
  if (!call.accumulate) {
    std::fill(token, token + shape.vocabulary * h, 0.0F);
    if (shape.positions > 0) std::fill_n(call.gradients[1].floats(), shape.positions * h, 0.0F);
  }
  const DropoutMask mask = mask_of(call, shape.dropout, DropoutSite::embedding);
  std::vector<float> masked(static_cast<std::size_t>(h));
  for (std::int64_t b = 0; b < call.batch; ++b) {
    for (std::int64_t t = 0; t < call.seq_length; ++t) {
      const std::int64_t first = (b * call.seq_length + t) * h;
      const float* gradient = call.output_gradient.floats() + first;
      if (mask.active()) {
        dropout(mask, static_cast<std::uint64_t>(first), gradient, h, masked.data());
        gradient = masked.data();
      }
      add(gradient, h, token + row_tokens(call, b)[t] * h);
      if (shape.positions > 0) add(gradient, h, call.gradients[1].floats() + t * h);
    }
  }
}

void prepare(const NormShape&, std::int64_t, std::int64_t, Matmul&) {}

void forward(const NormShape& shape, const LayerCall& call, Matmul&) {
  layer_norm(call.input.floats(), call.weights[0].floats(), call.weights[1].floats(),
             call.batch * call.seq_length, shape.hidden, static_cast<float>(shape.epsilon),
             call.output.floats(), call.saved[0].floats());
}

void backward_input(const NormShape& shape, const LayerCall& call, Matmul&) {
  float* carried = call.carried[0].floats();
  layer_norm_gradient(call.input.floats(), call.saved[0].floats(), call.weights[0].floats(),
                      call.output_gradient.floats(), call.batch * call.seq_length, shape.hidden,
                      Beta::zero, call.input_gradient.floats(), carried, carried + shape.hidden);
}

void backward_weight(const NormShape& shape, const LayerCall& call, Matmul&) {
  const float* carried = call.carried[0].floats();
  const Beta beta = call.accumulate ? Beta::one : Beta::zero;
  column_sum(carried, 1, shape.hidden, beta, call.gradients[0].floats());
  column_sum(carried + shape.hidden, 1, shape.hidden, beta, call.gradients[1].floats());
}

namespace {

// logits[T, V] = x[T, h] w[V, h]'; dx = dlogits w; dw = dlogits' x.
struct LogitGemms {
  Gemm forward, input, weight;
};
LogitGemms logit_gemms(const HeadShape& s, std::int64_t rows, bool accumulate) {
  const std::int64_t v = s.vocabulary, h = s.hidden;
  return {{.m = rows,
           .n = v,
           .k = h,
           .a_row = h,
           .b_row = 1,
           .b_column = h,
           .c_row = v,
           .bias = s.bias},
          {.m = rows, .n = h, .k = v, .a_row = v, .b_row = h, .c_row = h},
          {.m = v,
           .n = h,
           .k = rows,
           .a_row = 1,
           .a_column = v,
           .b_row = h,
           .c_row = h,
           .accumulate = accumulate}};
}

}  // namespace

void prepare(const HeadShape& shape, std::int64_t batch, std::int64_t seq_length, Matmul& matmul) {
  for (const bool accumulate : {false, true}) {
    const LogitGemms p = logit_gemms(shape, batch * seq_length, accumulate);
    for (const Gemm& gemm : {p.forward, p.input, p.weight}) matmul.prepare(gemm);
  }
}

void forward(const HeadShape& shape, const LayerCall& call, Matmul& matmul) {
  const std::int64_t rows = call.batch * call.seq_length;
  float* logits = call.saved[0].floats();
  matmul.run(logit_gemms(shape, rows, true).forward, call.input.floats(), call.weights[0].floats(),
             shape.bias ? call.weights[1].floats() : nullptr, logits);
  double loss = 0;
  for (std::int64_t b = 0; b < call.batch; ++b) {
    loss += cross_entropy(logits + b * call.seq_length * shape.vocabulary, row_tokens(call, b) + 1,
                          call.seq_length, shape.vocabulary, static_cast<float>(call.loss_scale));
  }
  if (call.loss != nullptr) *call.loss = loss * call.loss_scale;
}

void backward_input(const HeadShape& shape, const LayerCall& call, Matmul& matmul) {
  matmul.run(logit_gemms(shape, call.batch * call.seq_length, true).input, call.saved[0].floats(),
             call.weights[0].floats(), nullptr, call.input_gradient.floats());
}

void backward_weight(const HeadShape& shape, const LayerCall& call, Matmul& matmul) {
  const std::int64_t rows = call.batch * call.seq_length;
  matmul.run(logit_gemms(shape, rows, call.accumulate).weight, call.saved[0].floats(),
             call.input.floats(), nullptr, call.gradients[0].floats());
  if (shape.bias) {
    column_sum(call.saved[0].floats(), rows, shape.vocabulary,
               call.accumulate ? Beta::one : Beta::zero, call.gradients[1].floats());
  }
}

}  // namespace weir::cpu
