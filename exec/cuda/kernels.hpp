// Kernels of the CUDA backend that are not matrix products: the CPU's (exec/cpu/kernels.hpp), with the same masks and
// formulas. Every sum has one order, given by the shape alone, so the same inputs have the same bits on any device and
// beside any other work. C++17, because nvcc reads it too; arrays are device memory, row-major fp32.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "exec/philox.hpp"

namespace weir::cuda {

// Sums over rows go in two stages: kRowsPerPartial rows each, then the partial sums in order.
constexpr std::int64_t kRowsPerPartial = 64;
constexpr std::int64_t partials_of(std::int64_t rows) { return (rows + kRowsPerPartial - 1) / kRowsPerPartial; }

enum class Curve : std::uint8_t { gelu, gelu_tanh, relu, silu };
enum class Into : std::uint8_t { overwrite, add };

struct Rows {
  std::int64_t rows = 0, width = 0;
};

// y = (x - mean) / sqrt(variance + epsilon) * gain + shift; statistics: mean and 1/deviation of each row.
void layer_norm(const float* x, const float* gain, const float* shift, Rows size, float epsilon, float* y,
                float* statistics, cudaStream_t stream);
// dx (+)= the norm's gradient; the gradients of gain and shift are overwritten. partials: 2 * width *
// partials_of(rows).
struct NormGradient {
  const float *x, *statistics, *gain, *dy;
  float *dx, *gain_gradient, *shift_gradient, *partials;
};
void layer_norm_gradient(const NormGradient& g, Rows size, Into into, cudaStream_t stream);

void activate(Curve curve, const float* x, std::int64_t n, float* y, cudaStream_t stream);
void activate_gradient(Curve curve, const float* x, std::int64_t n, float* dx, cudaStream_t stream);

// y[i] = y[i] * mask(i) + x[i], and y[i] = x[i] * mask(first + i); without an active mask the factor is 1.
void dropout_add(const DropoutMask& mask, const float* x, std::int64_t n, float* y, cudaStream_t stream);
void dropout(const DropoutMask& mask, std::uint64_t first, const float* x, std::int64_t n, float* y,
             cudaStream_t stream);

// `matrices` of s x s: row i becomes the softmax over columns 0..i of scale * x, zero to the right.
void causal_softmax(float scale, std::int64_t matrices, std::int64_t s, float* x, cudaStream_t stream);
// ds = scale * p * (dp - sum(dp * p)), row by row, in place of dp.
void softmax_gradient(const float* p, float scale, std::int64_t matrices, std::int64_t s, float* dp,
                      cudaStream_t stream);

// Tokens as the host has them: `batch` samples of seq_length + 1. Row r of [batch * seq_length] reads token
// r / seq_length * (seq_length + 1) + r % seq_length; its target is one further on.
struct Tokens {
  const std::int32_t* ids;
  std::int64_t batch, seq_length;
};
// Row r becomes (softmax - one at its target) * scale; *loss = scale * the sum of -log softmax[target], in double.
// row_losses holds one double a row.
void cross_entropy(float* logits, Tokens tokens, std::int64_t vocabulary, float scale, double* row_losses, double* loss,
                   cudaStream_t stream);

// y = (token[id] + position[place]) * mask; position may be null.
void embed(Tokens tokens, const float* token, const float* position, std::int64_t width, const DropoutMask& mask,
           float* y, cudaStream_t stream);
// token_gradient[id] += dy * mask in ascending row order, without atomics; position_gradient may be null.
void embed_gradient(Tokens tokens, const float* dy, std::int64_t width, const DropoutMask& mask, float* token_gradient,
                    float* position_gradient, cudaStream_t stream);

// y[j] (+)= sum over rows of x[row, j]. partials: width * partials_of(rows).
void column_sum(const float* x, Rows size, Into into, float* partials, float* y, cudaStream_t stream);

// The gradient is the sum of `gradients`, in order.
constexpr int kMostCopies = 8;
struct Gradients {
  const float* of[kMostCopies];
  int count;
};
struct Adam {
  float rate, decay, beta1, beta2, epsilon, unbias1, unbias2;  // decay: 1 - rate * weight decay
};
void adamw(const Adam& adam, const Gradients& gradients, std::int64_t n, float* weight, float* first, float* second,
           cudaStream_t stream);
struct Sgd {
  float rate, decay, momentum;
};
// velocity may be null: no momentum.
void sgd(const Sgd& sgd, const Gradients& gradients, std::int64_t n, float* weight, float* velocity,
         cudaStream_t stream);

}  // namespace weir::cuda
