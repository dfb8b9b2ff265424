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

// What all gradients are multiplied with: clipping's factor, as the host knows it or as it stands
// on the device (null: it does not). One of the two is 1, which changes no bit.
struct GradientFactor {
  float known = 1;
  const float* found = nullptr;
};

// Loshchilov & Hutter, ICLR 2019, algorithm 2: decay apart from the gradient. The moments
// move by 1 - beta of their distance and are unbiased by 1 / (1 - beta^t), t = step + 1.
struct Adam {
  float rate, decay, epsilon;  // decay: 1 - rate * weight decay, of what decays
  double beta1, beta2;
};
void adamw(const Adam& adam, const std::vector<Updated>& parameters, const StepNumbers* numbers,
           const GradientFactor& factor, cudaStream_t stream);

struct Sgd {
  float rate, decay, momentum;  // decay: the weight decay, of what decays
};
void sgd(const Sgd& sgd, const std::vector<Updated>& parameters, const GradientFactor& factor,
         cudaStream_t stream);

// to[i] = the sum of squares of the i-th gradient, in double; of what is to be updated the gradient
// and its length are looked at. A weight's sum depends on nothing but its own gradient. `room`: as
// many numbers as `square_partials` says of each weight's length, together.
void sums_of_squares(const std::vector<Updated>& parameters, double* room, double* to,
                     cudaStream_t stream);
[[nodiscard]] std::int64_t square_partials(std::int64_t elements);

// From all weights' sums of squares, [parts, weights], to the factor that gradients are clipped by:
// 1, or most / (norm + 1e-6) where that is less. Of a weight's parts every `places`-th one is of
// one device's piece of it: those of a piece are added in order, then pieces, then weights.
struct Squares {
  const double* of;
  std::int64_t weights;
  int parts;
  int places = 1;  // divides parts
};
void clip_factor(const Squares& squares, double most, float* factor, cudaStream_t stream);

}  // namespace weir::cuda
