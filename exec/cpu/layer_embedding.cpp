// The embedding on the CPU: rows of two tables, and their gradients scattered back.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <vector>

#include "exec/cpu/kernels.hpp"
#include "exec/cpu/layers.hpp"

namespace weir::cpu {

void prepare(const EmbeddingShape&, std::int64_t, std::int64_t, Workbench&) {}

void forward(const EmbeddingShape& shape, const LayerCall& call, Workbench&) {
  const std::int64_t h = shape.hidden;
  const float* token = call.weights[0].floats();
  float* out = call.output.floats();
  for (std::int64_t b = 0; b < call.batch; ++b) {
    for (std::int64_t t = 0; t < call.seq_length; ++t) {
      float* row = out + (b * call.seq_length + t) * h;
      std::memcpy(row, token + sample_tokens(call, b)[t] * h, static_cast<std::size_t>(h) * 4);
      if (shape.positions > 0) add(call.weights[1].floats() + t * h, h, row);
    }
  }
  const DropoutMask mask = mask_of(call, shape.dropout, DropoutSite::embedding);
  if (mask.active()) dropout(mask, 0, out, call.batch * call.seq_length * h, out);
}

void backward_input(const EmbeddingShape&, const LayerCall&, Workbench&) {
}  // tokens have no gradient

void backward_weight(const EmbeddingShape& shape, const LayerCall& call, Workbench&) {
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
      add(gradient, h, token + sample_tokens(call, b)[t] * h);
      if (shape.positions > 0) add(gradient, h, call.gradients[1].floats() + t * h);
    }
  }
}

}  // namespace weir::cpu
