// The head on the CPU: logits, their loss, and its gradient in their place.
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <vector>

#include "exec/cpu/kernels.hpp"
#include "exec/cpu/layers.hpp"

namespace weir::cpu {
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

// Of images the targets are the last numbers of a sample, in fp32 as they are.
std::vector<std::int32_t> targets(const HeadShape& shape, const LayerCall& call,
                                  std::int64_t sample) {
  const std::int64_t count = shape.positions(call.seq_length);
  const std::int32_t* words = sample_tokens(call, sample) + call.sample_words - count;
  std::vector<std::int32_t> targets(words, words + count);
  if (!shape.pooled && shape.places == 0) return targets;
  for (std::int32_t& target : targets)
    target = static_cast<std::int32_t>(std::bit_cast<float>(target));
  return targets;
}

}  // namespace

void prepare(const HeadShape& shape, std::int64_t batch, std::int64_t seq_length, Workbench& on) {
  for (const bool accumulate : {false, true}) {
    const LogitGemms p = logit_gemms(shape, batch * shape.positions(seq_length), accumulate);
    for (const Gemm& gemm : {p.forward, p.input, p.weight}) on.matmul.prepare(gemm);
  }
}

void logits(const HeadShape& shape, const LayerCall& call, Workbench& on, float* to) {
  on.matmul.run(logit_gemms(shape, call.batch * shape.positions(call.seq_length), true).forward,
                call.input.floats(), call.weights[0].floats(),
                shape.bias ? call.weights[1].floats() : nullptr, to);
}

void forward(const HeadShape& shape, const LayerCall& call, Workbench& on) {
  float* logits = call.saved[0].floats();
  cpu::logits(shape, call, on, logits);
  double loss = 0;
  const std::int64_t each = shape.positions(call.seq_length);
  for (std::int64_t b = 0; b < call.batch; ++b) {
    loss += cross_entropy(logits + b * each * shape.vocabulary, targets(shape, call, b).data(),
                          each, shape.vocabulary, static_cast<float>(call.loss_scale));
  }
  if (call.loss != nullptr) *call.loss = loss * call.loss_scale;
}

void backward_input(const HeadShape& shape, const LayerCall& call, Workbench& on) {
  const std::int64_t rows = call.batch * shape.positions(call.seq_length);
  on.matmul.run(logit_gemms(shape, rows, true).input, call.saved[0].floats(),
                call.weights[0].floats(), nullptr, call.input_gradient.floats());
}

void backward_weight(const HeadShape& shape, const LayerCall& call, Workbench& on) {
  const std::int64_t rows = call.batch * shape.positions(call.seq_length);
  on.matmul.run(logit_gemms(shape, rows, call.accumulate).weight, call.saved[0].floats(),
                call.input.floats(), nullptr, call.gradients[0].floats());
  if (shape.bias) {
    column_sum(call.saved[0].floats(), rows, shape.vocabulary,
               call.accumulate ? Beta::one : Beta::zero, call.gradients[1].floats());
  }
}

}  // namespace weir::cpu
