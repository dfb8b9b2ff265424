// Batch norms (Ioffe and Szegedy, ICML 2015, section 3): each channel by its mean and variance over
// the rows, which are the places of all images. Sums are fp32 within a part of the rows, then
// double over the parts, whose number is given by the rows alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/cuda/kernels/optimizer.hpp"
#include "exec/cuda/kernels/types.hpp"

namespace weir::cuda {

constexpr std::int64_t kLeastOfPart = 64, kMostParts = 512;
constexpr std::int64_t rows_of_part(std::int64_t rows) {
  const std::int64_t each = (rows + kMostParts - 1) / kMostParts;
  return each > kLeastOfPart ? each : kLeastOfPart;
}
// Floats that the sums below need on their way.
constexpr std::int64_t norm_partials(Rows size) {
  const std::int64_t each = rows_of_part(size.rows);
  return 2 * size.width * ((size.rows + each - 1) / each);
}

// Each channel's mean, then its variance, of the rows themselves (not n - 1).
template <class E>
void channel_moments(const E* x, Rows size, float* partials, float* moments, cudaStream_t stream);

// y = (x - mean) r gain + shift with r = 1 / sqrt(variance + epsilon).
template <class E>
struct BatchNorm {
  const E* x;
  const float* moments;  // of channel_moments, or what a trained model keeps
  const E *gain, *shift;
  float epsilon;
};
template <class E>
void batch_norm(const BatchNorm<E>& norm, Rows size, E* y, cudaStream_t stream);

// Of a norm by its own rows' moments: with z = (x - mean) r, the gradients of gains, sum(dy z), and
// of shifts, sum(dy), and dx = gain r (dy - mean(dy) - z mean(dy z)).
template <class E>
struct BatchNormGradient {
  const E* x;
  const float* moments;
  const E* gain;
  float epsilon;
  const E* dy;
  E* dx;
  float* gradients;  // gains', then shifts'; overwritten
  float* partials;
};
template <class E>
void batch_norm_gradient(const BatchNormGradient<E>& norm, Rows size, cudaStream_t stream);

// sums (+)= a micro-batch's part, `share` of the mini-batch, of the mini-batch's first and second
// moment about the running means.
template <class E>
void add_moments(const float* moments, const E* running, std::int64_t channels, float share,
                 Beta beta, float* sums, cudaStream_t stream);

// The end of a mini-batch: each running mean and variance goes `momentum` of the way to the mean
// and the unbiased variance of all its samples' places. Moments are about the means as W read them.
struct MovedStatistics {
  Gradients sums;
  std::int64_t channels;
  Weights running;
  double momentum;
  double unbiased;  // n / (n - 1) of n places
};
void move_statistics(const MovedStatistics& moved, cudaStream_t stream);

}  // namespace weir::cuda
