// Kernels of the CPU backend that are not matrix products. All arrays are row-major fp32; n is a
// count of elements, rows x width a matrix. Masks are exec/training/philox's, with elements
// numbered row-major within the micro-batch's tensor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "exec/cpu/kernels/attention_size.hpp"
#include "exec/training/philox.hpp"
#include "plan/model/model.hpp"

namespace weir::cpu {

// y = (x - mean) / sqrt(variance + epsilon) * weight + bias; statistics: mean and 1/deviation of
// each row.
void layer_norm(const float* x, const float* weight, const float* bias, std::int64_t rows,
                std::int64_t width, float epsilon, float* y, float* statistics);
// y = x + beta y, BLAS's beta: zero overwrites, one accumulates.
enum class Beta : std::uint8_t { zero, one };
// dx (+)= the norm's gradient; and, overwritten, the gradients of weight and bias summed over the
// rows.
void layer_norm_gradient(const float* x, const float* statistics, const float* weight,
                         const float* dy, std::int64_t rows, std::int64_t width, Beta beta,
                         float* dx, float* weight_gradient, float* bias_gradient);

// Without mean and shift: y = x / rms(x) * weight with rms(x)^2 = mean(x^2) + epsilon. The same
// statistics, the mean taken as 0.
void rms_norm(const float* x, const float* weight, std::int64_t rows, std::int64_t width,
              float epsilon, float* y, float* statistics);
void rms_norm_gradient(const float* x, const float* statistics, const float* weight,
                       const float* dy, std::int64_t rows, std::int64_t width, Beta beta, float* dx,
                       float* weight_gradient);

// y = activation(x); dx = dx * activation'(x).
void activate(Activation activation, const float* x, std::int64_t n, float* y);
void activate_gradient(Activation activation, const float* x, std::int64_t n, float* dx);

// A gated MLP's middle: of each row of x, width numbers g and width numbers u, y = activation(g) u.
void gate(Activation activation, const float* x, std::int64_t rows, std::int64_t width, float* y);
// dx holds y's gradient where u's belongs; both gradients are put in their places.
void gate_gradient(Activation activation, const float* x, std::int64_t rows, std::int64_t width,
                   float* dx);

// y[i] = y[i] * mask(first + i) + x[i], and y[i] = x[i] * mask(first + i).
void dropout_add(const DropoutMask& mask, std::uint64_t first_element, const float* x,
                 std::int64_t n, float* y);
void dropout(const DropoutMask& mask, std::uint64_t first_element, const float* x, std::int64_t n,
             float* y);

// Each row i of an s x s matrix: softmax over the columns that it sees (0..i where causal) of
// scale * x, zero to the right; in place.
void attention_softmax(float scale, KeyMask mask, std::int64_t s, float* x);
// ds = p * (dp - sum(dp * p)), row by row, in place of dp.
void softmax_gradient(const float* p, KeyMask mask, std::int64_t s, float* dp);

// Row i becomes (softmax - one at its target) * scale; returns the sum of -log softmax[target] over
// the rows, in double. A row whose target is negative has no loss and becomes zeros.
double cross_entropy(float* logits, const std::int32_t* targets, std::int64_t rows,
                     std::int64_t vocabulary, float scale);

// y[j] (+)= sum over rows of x[row, j].
void column_sum(const float* x, std::int64_t rows, std::int64_t width, Beta beta, float* y);
void add(const float* x, std::int64_t n, float* y);  // y += x

}  // namespace weir::cpu
