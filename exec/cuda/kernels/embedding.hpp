// Token and position tables: looking rows up, and adding their gradients without atomics.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/cuda/kernels/types.hpp"

namespace weir::cuda {

// y = (token[id] + position[place]) * mask; position may be null.
template <class E>
void embed(Tokens tokens, const E* token, const E* position, std::int64_t width,
           const StepMask& mask, E* y, cudaStream_t stream);

// token_gradient[id] += dy * mask in ascending row order; position_gradient may be null. The
// gradients are fp32.
template <class E>
void embed_gradient(Tokens tokens, const E* dy, std::int64_t width, const StepMask& mask,
                    float* token_gradient, float* position_gradient, cudaStream_t stream);

}  // namespace weir::cuda
