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

// A gated MLP's middle: a row of x is `width` numbers g and `width` numbers u, and one of y is
// curve(g) u.
template <class E>
void gate(Curve curve, const E* x, Rows size, E* y, cudaStream_t stream);
// Rows of dx are as x's and hold y's gradient where u's belongs; both are put in their places.
template <class E>
void gate_gradient(Curve curve, const E* x, Rows size, E* dx, cudaStream_t stream);

}  // namespace weir::cuda
