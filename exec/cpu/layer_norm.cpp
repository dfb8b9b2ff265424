// The norm between blocks and head on the CPU.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/kernels/kernels.hpp"
#include "exec/cpu/layers.hpp"

namespace weir::cpu {

void prepare(const NormShape&, std::int64_t, std::int64_t, Workbench&) {}

void forward(const NormShape& shape, const LayerCall& call, Workbench& on) {
  const std::int64_t rows = on.own_rows(call.batch * call.seq_length).count;
  const float* gain = call.weights[0].floats();
  const auto epsilon = static_cast<float>(shape.epsilon);
  if (shape.kind == NormKind::rms_norm) {
    return rms_norm(call.input.floats(), gain, rows, shape.hidden, epsilon, call.output.floats(),
                    call.saved[0].floats());
  }
  layer_norm(call.input.floats(), gain, call.weights[1].floats(), rows, shape.hidden, epsilon,
             call.output.floats(), call.saved[0].floats());
}

void backward_input(const NormShape& shape, const LayerCall& call, Workbench& on) {
  const std::int64_t rows = on.own_rows(call.batch * call.seq_length).count;
  float* carried = call.carried[0].floats();
  if (shape.kind == NormKind::rms_norm) {
    return rms_norm_gradient(call.input.floats(), call.saved[0].floats(), call.weights[0].floats(),
                             call.output_gradient.floats(), rows, shape.hidden, Beta::zero,
                             call.input_gradient.floats(), carried);
  }
  layer_norm_gradient(call.input.floats(), call.saved[0].floats(), call.weights[0].floats(),
                      call.output_gradient.floats(), rows, shape.hidden, Beta::zero,
                      call.input_gradient.floats(), carried, carried + shape.hidden);
}

void backward_weight(const NormShape& shape, const LayerCall& call, Workbench&) {
  const float* carried = call.carried[0].floats();
  const Beta beta = call.accumulate ? Beta::one : Beta::zero;
  column_sum(carried, 1, shape.hidden, beta, call.gradients[0].floats());
  if (shape.kind == NormKind::layer_norm)
    column_sum(carried + shape.hidden, 1, shape.hidden, beta, call.gradients[1].floats());
}

}  // namespace weir::cpu
