// A norm of rows by its kind: layer norm's kernels or RMS norm's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/cuda/kernels/norms.hpp"
#include "plan/model/layer_shape.hpp"

namespace weir::cuda {

template <class E>
void norm_rows(NormKind kind, const E* x, const Norm<E>& norm, Rows size, cudaStream_t stream) {
  if (kind == NormKind::rms_norm) return rms_norm<E>(x, norm, size, stream);
  layer_norm<E>(x, norm, size, stream);
}

// x becomes residual + x * mask first.
template <class E>
void residual_norm_rows(NormKind kind, const E* residual, const StepMask& mask, E* x,
                        const Norm<E>& norm, Rows size, cudaStream_t stream) {
  if (kind == NormKind::rms_norm)
    return residual_rms_norm<E>(residual, mask, x, norm, size, stream);
  residual_layer_norm<E>(residual, mask, x, norm, size, stream);
}

template <class E>
void norm_rows_gradient(NormKind kind, const NormGradient<E>& g, Rows size, cudaStream_t stream) {
  if (kind == NormKind::rms_norm) return rms_norm_gradient<E>(g, size, stream);
  layer_norm_gradient<E>(g, size, stream);
}

}  // namespace weir::cuda
