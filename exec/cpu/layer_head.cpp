// The head on the CPU: logits, their loss, and its gradient in their place. In front of the
// projection there may be a transform (BERT):
//
//   u = x Wd + b   a = act(u)   n = norm(a)   logits = n W + b
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <vector>

#include "exec/cpu/block.hpp"
#include "exec/cpu/kernels/divided_vocabulary.hpp"
#include "exec/cpu/kernels/kernels.hpp"
#include "exec/cpu/layers.hpp"

namespace weir::cpu {
namespace {

// From a row of what is projected to the next: of the first of a sample's tokens a sample further.
std::int64_t state_row(const HeadShape& shape, std::int64_t seq_length) {
  return shape.first_token ? seq_length * shape.hidden : shape.hidden;
}

// logits[T, V] = x[T, h] w[V, h]'; dx = dlogits w; dw = dlogits' x.
struct LogitGemms {
  Gemm forward, input, weight;
};
LogitGemms logit_gemms(const HeadShape& s, std::int64_t batch, std::int64_t seq_length,
                       bool accumulate) {
  const std::int64_t rows = batch * s.positions(seq_length);
  LogitGemms gemms{times_weight(rows, s.hidden, s.vocabulary, s.bias),
                   gradient_times_weight(rows, s.hidden, s.vocabulary),
                   weight_gradient(rows, s.hidden, s.vocabulary, accumulate)};
  gemms.forward.a_row = gemms.input.c_row = gemms.weight.b_row = state_row(s, seq_length);
  return gemms;
}
LogitGemms dense_gemms(const HeadShape& s, std::int64_t rows, bool accumulate) {
  return {times_weight(rows, s.hidden, s.hidden, true),
          gradient_times_weight(rows, s.hidden, s.hidden),
          weight_gradient(rows, s.hidden, s.hidden, accumulate)};
}

// What a call's lists hold, by name.
struct HeadCall {
  const HeadShape& shape;
  const LayerCall& call;
  std::int64_t rows = call.batch * shape.positions(call.seq_length);
  bool transform = shape.dense == HeadDense::transform;

  // Of a transform: weight, bias, gain and shift, then the projection's.
  [[nodiscard]] std::size_t projection() const { return transform ? 4 : 0; }
  [[nodiscard]] const float* weight(std::size_t which) const {
    return call.weights[which].floats();
  }
  [[nodiscard]] float* gradient(std::size_t which) const { return call.gradients[which].floats(); }
  [[nodiscard]] float* dense() const { return call.saved[0].floats(); }
  [[nodiscard]] float* activated() const { return call.saved[1].floats(); }
  [[nodiscard]] float* statistics() const { return call.saved[2].floats(); }
  [[nodiscard]] float* normed() const { return call.saved[3].floats(); }
  [[nodiscard]] float* logits() const { return call.saved[projection()].floats(); }
  [[nodiscard]] float* dense_gradient() const { return call.carried[0].floats(); }
  [[nodiscard]] float* norm_gradients() const { return call.carried[1].floats(); }
  [[nodiscard]] LogitGemms gemms(bool accumulate) const {
    return logit_gemms(shape, call.batch, call.seq_length, accumulate);
  }
  // What the projection reads, of all rows: where devices divide them, gathered in the workspace.
  [[nodiscard]] const float* states(const Workbench& on) const {
    if (transform) return normed();
    return on.all_rows(call.input.floats(), rows * shape.hidden, call.workspace.floats());
  }
};

void transform_forward(const HeadCall& head, Workbench& on) {
  const HeadShape& shape = head.shape;
  on.matmul.run(dense_gemms(shape, head.rows, true).forward, head.call.input.floats(),
                head.weight(0), head.weight(1), head.dense());
  activate(shape.activation, head.dense(), head.rows * shape.hidden, head.activated());
  layer_norm(head.activated(), head.weight(2), head.weight(3), head.rows, shape.hidden,
             static_cast<float>(shape.norm_epsilon), head.normed(), head.statistics());
}

// From the gradient of what the norm gave, in dx, to dx itself.
void transform_backward_input(const HeadCall& head, Workbench& on, float* dx) {
  const HeadShape& shape = head.shape;
  float* d_dense = head.dense_gradient();
  layer_norm_gradient(head.activated(), head.statistics(), head.weight(2), dx, head.rows,
                      shape.hidden, Beta::zero, d_dense, head.norm_gradients(),
                      head.norm_gradients() + shape.hidden);
  activate_gradient(shape.activation, head.dense(), head.rows * shape.hidden, d_dense);
  on.matmul.run(dense_gemms(shape, head.rows, true).input, d_dense, head.weight(0), nullptr, dx);
}

void transform_backward_weight(const HeadCall& head, Workbench& on) {
  const std::int64_t h = head.shape.hidden;
  const Beta beta = head.call.accumulate ? Beta::one : Beta::zero;
  on.matmul.run(dense_gemms(head.shape, head.rows, head.call.accumulate).weight,
                head.dense_gradient(), head.call.input.floats(), nullptr, head.gradient(0));
  column_sum(head.dense_gradient(), head.rows, h, beta, head.gradient(1));
  column_sum(head.norm_gradients(), 1, h, beta, head.gradient(2));
  column_sum(head.norm_gradients() + h, 1, h, beta, head.gradient(3));
}

// The last words of a sample; of images numbers in fp32, as all of it.
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

// Of the micro-batch.
std::vector<std::int32_t> all_targets(const HeadShape& shape, const LayerCall& call) {
  std::vector<std::int32_t> all;
  for (std::int64_t b = 0; b < call.batch; ++b) {
    const std::vector<std::int32_t> of_sample = targets(shape, call, b);
    all.insert(all.end(), of_sample.begin(), of_sample.end());
  }
  return all;
}

double divided_loss(const HeadShape& shape, const LayerCall& call, TensorGroup& group) {
  const VocabularyPart part(shape.vocabulary, &group);
  return divided_cross_entropy(
      {part, part.classes(call.classes), static_cast<float>(call.loss_scale)},
      all_targets(shape, call), call.saved[0].floats(), group);
}

}  // namespace

void prepare(const HeadShape& shape, std::int64_t batch, std::int64_t seq_length, Workbench& on) {
  const std::int64_t rows = batch * shape.positions(seq_length);
  for (const bool accumulate : {false, true}) {
    const LogitGemms p = logit_gemms(shape, batch, seq_length, accumulate);
    for (const Gemm& gemm : {p.forward, p.input, p.weight}) on.matmul.prepare(gemm);
    if (shape.dense != HeadDense::transform) continue;
    const LogitGemms d = dense_gemms(shape, rows, accumulate);
    for (const Gemm& gemm : {d.forward, d.input, d.weight}) on.matmul.prepare(gemm);
  }
}

void logits(const HeadShape& shape, const LayerCall& call, Workbench& on, float* to) {
  const HeadCall head{shape, call};
  on.matmul.run(head.gemms(true).forward, head.states(on), head.weight(head.projection()),
                shape.bias ? head.weight(head.projection() + 1) : nullptr, to);
}

void forward(const HeadShape& shape, const LayerCall& call, Workbench& on) {
  const HeadCall head{shape, call};
  if (head.transform) transform_forward(head, on);
  float* logits = head.logits();
  cpu::logits(shape, call, on, logits);
  double loss = on.group == nullptr ? 0 : divided_loss(shape, call, *on.group);
  const std::int64_t each = shape.positions(call.seq_length);
  for (std::int64_t b = 0; b < call.batch && on.group == nullptr; ++b) {
    loss += cross_entropy(logits + b * each * shape.vocabulary, targets(shape, call, b).data(),
                          each, shape.vocabulary, static_cast<float>(call.loss_scale));
  }
  if (call.loss != nullptr) *call.loss = loss * call.loss_scale;
}

void backward_input(const HeadShape& shape, const LayerCall& call, Workbench& on) {
  const HeadCall head{shape, call};
  float* dx = call.input_gradient.floats();
  // The tokens that are not projected have no gradient.
  if (shape.first_token) std::fill_n(dx, call.batch * state_row(shape, call.seq_length), 0.0F);
  float* part = on.divides_rows ? call.workspace.floats() : dx;
  on.matmul.run(head.gemms(true).input, head.logits(), head.weight(head.projection()), nullptr,
                part);
  on.sum_parts(part, head.rows * shape.hidden, dx);
  if (head.transform) transform_backward_input(head, on, dx);
}

void backward_weight(const HeadShape& shape, const LayerCall& call, Workbench& on) {
  const HeadCall head{shape, call};
  on.matmul.run(head.gemms(call.accumulate).weight, head.logits(), head.states(on), nullptr,
                head.gradient(head.projection()));
  if (shape.bias) {
    column_sum(head.logits(), head.rows, shape.vocabulary, call.accumulate ? Beta::one : Beta::zero,
               head.gradient(head.projection() + 1));
  }
  if (head.transform) transform_backward_weight(head, on);
}

}  // namespace weir::cpu
