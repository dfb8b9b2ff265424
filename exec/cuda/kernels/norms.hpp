// Layer norms and RMS norms. Statistics and the gradients of weight and bias are fp32 whatever the
// elements are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/cuda/kernels/sums.hpp"
#include "exec/cuda/kernels/types.hpp"

namespace weir::cuda {

// y = (x - mean) / sqrt(variance + epsilon) * weight + bias; statistics: mean and 1/deviation of
// each row. An RMS norm takes the mean as 0 and has no bias, which is null and is not looked at.
template <class E>
struct Norm {
  const E *weight, *bias;
  float epsilon;
  E* y;
  float* statistics;
};
template <class E>
void layer_norm(const E* x, const Norm<E>& norm, Rows size, cudaStream_t stream);
template <class E>
void rms_norm(const E* x, const Norm<E>& norm, Rows size, cudaStream_t stream);

// x = residual + x * mask, rounded to E, and then its norm.
template <class E>
void residual_layer_norm(const E* residual, const StepMask& mask, E* x, const Norm<E>& norm,
                         Rows size, cudaStream_t stream);
template <class E>
void residual_rms_norm(const E* residual, const StepMask& mask, E* x, const Norm<E>& norm,
                       Rows size, cudaStream_t stream);

// dx = the norm's gradient + residual; dropped = dx * mask. The gradients of weight and bias are
// overwritten.
template <class E>
struct NormGradient {
  const E* x;
  const float* statistics;
  const E *weight, *dy;
  E* dx;
  float *weight_gradient, *bias_gradient;  // the second is not looked at of an RMS norm
  float* partials;                         // 2 * width * partials_of(rows); half of an RMS norm
  const E* residual = nullptr;             // may be null, or dx itself
  E* dropped = nullptr;                    // may be null
  StepMask mask;                           // of `dropped`
};
template <class E>
void layer_norm_gradient(const NormGradient<E>& g, Rows size, cudaStream_t stream);
template <class E>
void rms_norm_gradient(const NormGradient<E>& g, Rows size, cudaStream_t stream);

}  // namespace weir::cuda
