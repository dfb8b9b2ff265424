// The head on CUDA: logits, their loss, and its gradient in their place. In front of the projection
// there may be a transform (BERT):
//
//   u = x Wd + b   a = act(u)   n = norm(a)   logits = n W + b
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "exec/cuda/blas/linear.hpp"
#include "exec/cuda/block_mlp.hpp"
#include "exec/cuda/kernels/cross_entropy.hpp"
#include "exec/cuda/kernels/norms.hpp"
#include "exec/cuda/kernels/sums.hpp"
#include "exec/cuda/layers.hpp"

namespace weir::cuda {
namespace {

// Of the projection. Of the first of a sample's tokens the rows that are read, and their gradients,
// lie a sample apart.
struct LogitGemms {
  Linear linear;
  Gemm forward, input;
  LogitGemms(const HeadShape& shape, std::int64_t batch, std::int64_t seq_length, Element element)
      : linear(head_linear(shape, batch * shape.positions(seq_length), element)),
        forward(linear.forward()),
        input(linear.input(Epilogue::none)),
        row_(shape.first_token ? seq_length * shape.hidden : shape.hidden) {
    forward.a_row = input.c_row = row_;
  }
  [[nodiscard]] Gemm weight(bool accumulate) const {
    Gemm gemm = linear.weight(accumulate, Epilogue::none);
    gemm.b_row = row_;
    return gemm;
  }

 private:
  std::int64_t row_;
};

// What a call's lists hold, by name.
template <class E>
struct HeadCall {
  const HeadShape& shape;
  const LayerCall& call;
  const Workbench& on;
  std::int64_t rows = call.batch * shape.positions(call.seq_length);
  bool transform = shape.dense == HeadDense::transform;
  LogitGemms gemms{shape, call.batch, call.seq_length, on.matmul->element()};
  Linear dense{rows, shape.hidden, shape.hidden, true};

  // Of a transform: weight, bias, gain and shift, then the projection's.
  [[nodiscard]] std::size_t projection() const { return transform ? 4 : 0; }
  [[nodiscard]] E* weight(std::size_t which) const { return elements<E>(call.weights[which]); }
  [[nodiscard]] float* gradient(std::size_t which) const { return call.gradients[which].floats(); }
  [[nodiscard]] E* made() const { return elements<E>(call.saved[0]); }
  [[nodiscard]] E* activated() const { return elements<E>(call.saved[1]); }
  [[nodiscard]] float* statistics() const { return call.saved[2].floats(); }
  [[nodiscard]] E* normed() const { return elements<E>(call.saved[3]); }
  [[nodiscard]] E* logits() const { return elements<E>(call.saved[projection()]); }
  [[nodiscard]] E* dense_gradient() const { return elements<E>(call.carried[0]); }
  [[nodiscard]] float* norm_gradients() const { return call.carried[1].floats(); }
  // What the product reads, of all rows: where devices divide them, gathered in the workspace.
  [[nodiscard]] const E* states() const {
    if (transform) return normed();
    return on.group.all_rows<E>(elements<E>(call.input), rows * shape.hidden,
                                elements<E>(call.workspace));
  }
  // A sample's last words, of images numbers in fp32.
  [[nodiscard]] Targets targets() const {
    const std::int64_t each = shape.positions(call.seq_length);
    return {on.bring(call, call.sample_words - each, each), rows, shape.pooled || shape.places > 0};
  }
};

template <class E>
void transform_forward(const HeadCall<E>& head) {
  const auto& [shape, call, on, rows, transform, gemms, dense] = head;
  on.multiply(dense.forward(), {call.input.data, head.weight(0), head.made(), head.weight(1)});
  activate<E>(curve_of(shape.activation), head.made(), rows * shape.hidden, head.activated(),
              on.stream);
  layer_norm<E>(head.activated(),
                {head.weight(2), head.weight(3), static_cast<float>(shape.norm_epsilon),
                 head.normed(), head.statistics()},
                {rows, shape.hidden}, on.stream);
}

// From the gradient of what the norm gave, in dx, to dx itself.
template <class E>
void transform_backward_input(const HeadCall<E>& head, E* dx) {
  const auto& [shape, call, on, rows, transform, gemms, dense] = head;
  E* const d_made = head.dense_gradient();
  layer_norm_gradient<E>({.x = head.activated(),
                          .statistics = head.statistics(),
                          .weight = head.weight(2),
                          .dy = dx,
                          .dx = d_made,
                          .weight_gradient = head.norm_gradients(),
                          .bias_gradient = head.norm_gradients() + shape.hidden,
                          .partials = on.partials},
                         {rows, shape.hidden}, on.stream);
  activate_gradient<E>(curve_of(shape.activation), head.made(), rows * shape.hidden, d_made,
                       on.stream);
  on.multiply(dense.input(Epilogue::none), {d_made, head.weight(0), dx});
}

template <class E>
void transform_backward_weight(const HeadCall<E>& head) {
  const auto& [shape, call, on, rows, transform, gemms, dense] = head;
  const std::int64_t h = shape.hidden;
  on.multiply(dense.weight(call.accumulate, Epilogue::none),
              {head.dense_gradient(), call.input.data, head.gradient(0)});
  column_sum<E>(head.dense_gradient(), {rows, h}, beta(call), on.partials, head.gradient(1),
                on.stream);
  accumulate({{{head.norm_gradients(), head.gradient(2), h},
               {head.norm_gradients() + h, head.gradient(3), h}},
              2},
             beta(call), on.stream);
}

// Of a vocabulary that devices divide: three all-reduces of a number a row.
template <class E>
void divided_loss(const HeadCall<E>& head, double* loss) {
  const auto& [shape, call, on, rows, transform, gemms, dense] = head;
  const std::int64_t first = on.group.place * shape.vocabulary, line = whole_lines(rows);
  const RowNumbers numbers{on.row_numbers, on.row_numbers + line, on.row_numbers + 2 * line};
  const DividedLogits<E> logits{
      {head.logits(), std::clamp(call.classes - first, std::int64_t{0}, shape.vocabulary),
       gemms.linear.out},
      first,
      shape.vocabulary};
  const Targets targets = head.targets();
  largest_logits<E>(logits, targets, numbers, on.stream);
  on.group.largest(numbers.largest, rows);
  sum_powers<E>(logits, targets, numbers, on.stream);
  on.group.sum(numbers.powers, rows);
  on.group.sum(numbers.at_target, rows);
  divided_cross_entropy<E>(logits, targets, static_cast<float>(call.loss_scale), numbers,
                           on.row_losses, loss, on.stream);
}

template <class E>
void head_forward(const HeadCall<E>& head) {
  const auto& [shape, call, on, rows, transform, gemms, dense] = head;
  if (transform) transform_forward(head);
  const std::size_t at = head.projection();
  // The logits are overwritten by their own gradient: a vocabulary wide, they are too large to hold
  // twice.
  on.multiply(gemms.forward, {head.states(), head.weight(at), head.logits(),
                              shape.bias ? head.weight(at + 1) : nullptr});
  double* loss = on.row_losses + rows;
  if (on.group.divided()) {
    divided_loss(head, loss);
  } else {
    cross_entropy<E>({head.logits(), shape.vocabulary, gemms.linear.out}, head.targets(),
                     static_cast<float>(call.loss_scale), on.row_losses, loss, on.stream);
  }
  // Read by the host when the step has ended (Backend::host_memory).
  if (call.loss != nullptr) {
    CUDA_CHECK(cudaMemcpyAsync(call.loss, loss, sizeof(double), cudaMemcpyDeviceToHost, on.stream));
  }
}

template <class E>
void head_backward_input(const HeadCall<E>& head) {
  const auto& [shape, call, on, rows, transform, gemms, dense] = head;
  E* const dx = elements<E>(call.input_gradient);
  E* const part = on.group.divides_rows ? elements<E>(call.workspace) : dx;
  // The tokens that are not projected have no gradient.
  if (shape.first_token) {
    const std::int64_t numbers = call.batch * call.seq_length * shape.hidden;
    CUDA_CHECK(cudaMemsetAsync(dx, 0, static_cast<std::size_t>(numbers) * sizeof(E), on.stream));
  }
  on.multiply(gemms.input, {head.logits(), head.weight(head.projection()), part});
  on.group.sum_parts(part, rows * shape.hidden, dx);
  if (transform) transform_backward_input(head, dx);
}

template <class E>
void head_backward_weight(const HeadCall<E>& head) {
  const auto& [shape, call, on, rows, transform, gemms, dense] = head;
  const std::size_t at = head.projection();
  on.multiply(gemms.weight(call.accumulate), {head.logits(), head.states(), head.gradient(at)});
  if (shape.bias) {
    column_sum<E>(head.logits(), {rows, gemms.linear.out}, beta(call), on.partials,
                  head.gradient(at + 1), on.stream);
  }
  if (transform) transform_backward_weight(head);
}

}  // namespace

ScratchNeeds prepare(const HeadShape& shape, std::int64_t batch, std::int64_t seq_length,
                     const Workbench& on) {
  Matmul& matmul = *on.matmul;
  const std::int64_t rows = batch * shape.positions(seq_length), h = shape.hidden;
  const LogitGemms gemms(shape, batch, seq_length, matmul.element());
  matmul.prepare(gemms.forward);
  matmul.prepare(gemms.input);
  for (const bool accumulate : {false, true}) matmul.prepare(gemms.weight(accumulate));
  std::int64_t widest = shape.bias ? gemms.linear.out : 0;
  if (shape.dense == HeadDense::transform) {
    const Linear dense{rows, h, h, true};
    matmul.prepare(dense.forward());
    matmul.prepare(dense.input(Epilogue::none));
    for (const bool accumulate : {false, true})
      matmul.prepare(dense.weight(accumulate, Epilogue::none));
    widest = std::max(widest, 2 * h);
  }
  ScratchNeeds needs{.words = rows, .row_losses = rows, .partials = widest * partials_of(rows)};
  if (on.group.divided()) {
    needs.row_numbers = 3 * whole_lines(rows);
    needs.group_bytes = std::max(on.group.room_bytes(rows * h, bytes_of(matmul.element())),
                                 on.group.room_bytes(rows, sizeof(float)));
  }
  return needs;
}

void forward(const HeadShape& shape, const LayerCall& call, const Workbench& on) {
  on.in_elements([&](auto element) { head_forward(HeadCall<decltype(element)>{shape, call, on}); });
}
void backward_input(const HeadShape& shape, const LayerCall& call, const Workbench& on) {
  on.in_elements([&](auto element) {
    head_backward_input(HeadCall<decltype(element)>{shape, call, on});
  });
}
void backward_weight(const HeadShape& shape, const LayerCall& call, const Workbench& on) {
  on.in_elements([&](auto element) {
    head_backward_weight(HeadCall<decltype(element)>{shape, call, on});
  });
}

}  // namespace weir::cuda
