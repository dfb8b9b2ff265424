// The optimizer's step of one weight on the CPU, and the squares of its gradient.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "plan/job/optimizer.hpp"

namespace weir::cpu {

struct Update {
  std::int64_t step = 1;  // 1-based
  bool decays = false;
  double factor = 1;  // of the gradient: clipping's
  Optimizer optimizer;
};
// The gradient is the sum of `gradients`, in that order, times the factor. torch.optim's SGD,
// RMSprop, Adam and AdamW; state1 and state2 are the velocity of sgd; the mean of squares of
// rmsprop and, with momentum, its velocity; Adam's two moments. Null where the rule has none.
void update(const Update& update, std::span<const float* const> gradients, std::int64_t n,
            float* weight, float* state1, float* state2);

// Of the same sum, in an order that follows from n alone.
[[nodiscard]] double sum_of_squares(std::span<const float* const> gradients, std::int64_t n);

}  // namespace weir::cpu
