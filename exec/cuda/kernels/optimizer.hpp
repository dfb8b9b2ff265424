// Optimizers: one launch a parameter. Master weights and moments are fp32; a working copy in bf16
// is written beside.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/cuda/kernels/types.hpp"

namespace weir::cuda {

// The gradient is the sum of `gradients`, in order.
constexpr int kMostCopies = 8;
struct Gradients {
  const float* of[kMostCopies];
  int count;
};

struct Weights {
  float* master;
  Bf16* working;  // null: the master weights are what the products read
};

// Loshchilov & Hutter, ICLR 2019, algorithm 2: decay apart from the gradient. The moments
// move by 1 - beta of their distance and are unbiased by 1 / (1 - beta^t), t = step + 1.
struct Adam {
  float rate, decay, epsilon;  // decay: 1 - rate * weight decay
  double beta1, beta2;
};
void adamw(const Adam& adam, const Gradients& gradients, std::int64_t n, const Weights& weights,
           float* first, float* second, const StepNumbers* numbers, cudaStream_t stream);

struct Sgd {
  float rate, decay, momentum;
};
// velocity may be null: no momentum.
void sgd(const Sgd& sgd, const Gradients& gradients, std::int64_t n, const Weights& weights,
         float* velocity, cudaStream_t stream);

}  // namespace weir::cuda
