// Optimizers: one launch for as many parameters as its arguments have room for. Master weights and
// moments are fp32; a working copy in bf16 is written beside.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

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

// A parameter to be updated. What another is beside it changes no bit of it.
struct Updated {
  Gradients gradients;
  std::int64_t n;
  Weights weights;
  float *first, *second;  // AdamW's moments; SGD: its velocity, or null without momentum, and null
  bool decays;
};

// Tensors and, where a gradient has several, copies that one launch takes.
constexpr int kMostUpdated = 512, kMostSharedCopies = 128;

// Loshchilov & Hutter, ICLR 2019, algorithm 2: decay apart from the gradient. The moments
// move by 1 - beta of their distance and are unbiased by 1 / (1 - beta^t), t = step + 1.
struct Adam {
  float rate, decay, epsilon;  // decay: 1 - rate * weight decay, of what decays
  double beta1, beta2;
};
void adamw(const Adam& adam, const std::vector<Updated>& parameters, const StepNumbers* numbers,
           cudaStream_t stream);

struct Sgd {
  float rate, decay, momentum;  // decay: the weight decay, of what decays
};
void sgd(const Sgd& sgd, const std::vector<Updated>& parameters, cudaStream_t stream);

}  // namespace weir::cuda
