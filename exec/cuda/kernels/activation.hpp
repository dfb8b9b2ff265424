// The curves between a block's two products.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/cuda/kernels/types.hpp"

namespace weir::cuda {

enum class Curve : std::uint8_t { gelu, gelu_tanh, relu, silu };

// y = curve(x); dx = dx * curve'(x).
template <class E>
void activate(Curve curve, const E* x, std::int64_t n, E* y, cudaStream_t stream);
template <class E>
void activate_gradient(Curve curve, const E* x, std::int64_t n, E* dx, cudaStream_t stream);

}  // namespace weir::cuda
