// A block's MLP on CUDA up to its last product, and back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/cuda/block.hpp"
#include "exec/cuda/kernels/activation.hpp"

namespace weir::cuda {

[[nodiscard]] Curve curve_of(Activation activation);

// u = n2 Wup + b and g = act(u).
template <class E>
void up_and_activate(const BlockCall<E>& block);

// The gradient of what the activation gave; of a gated MLP it is put where u's second half has its
// place.
[[nodiscard]] Gemm activated_gradient(const TransformerShape& shape, const Linear& down);

// u's gradient from that of the gemm down, before its dropout.
template <class E>
void activate_and_up_gradient(const BlockCall<E>& block, const E* d_down);

}  // namespace weir::cuda
