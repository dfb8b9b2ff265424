// Kernels on maps that are not convolutions: rows are places of all samples, [rows, channels], or
// maps [batch, height, width, channels], fp32.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "exec/cpu/kernels/kernels.hpp"
#include "plan/model/cell_shape.hpp"
#include "plan/model/tensor_list.hpp"

namespace weir::cpu {

struct Rows {
  std::int64_t rows = 0, channels = 0;
};

// Each channel's mean over the rows, then its variance, of the rows themselves (not n - 1).
void channel_moments(const float* x, const Rows& size, float* moments);
// y = (x - mean) / sqrt(variance + epsilon) * gain + shift, the moments as above.
void batch_norm(const float* x, const Rows& size, const float* moments, const float* gain,
                const float* shift, float epsilon, float* y);
// Of a norm by its own rows' moments: dx, and overwritten the gradients of gain, then shift.
// dx = gain r (dy - mean(dy) - z mean(dy z)) with r = 1 / sqrt(variance + epsilon), z = (x - mean)
// r (Ioffe and Szegedy, ICML 2015, section 3).
void batch_norm_gradient(const float* x, const Rows& size, const float* moments, const float* gain,
                         float epsilon, const float* dy, float* dx, float* gradients);
// Adds a micro-batch's part, `share` of the mini-batch, to the mini-batch's first and second moment
// about the running means: channels' means, then variances.
void add_moments(const float* moments, const float* running, std::int64_t channels, float share,
                 Beta beta, float* sums);

// The end of a mini-batch: each running mean and variance goes `momentum` of the way to the mean
// and the unbiased variance of all its samples' places (PyTorch's BatchNorm2d; over all
// micro-batches at once as in torchgpipe's DeferredBatchNorm). The moments about the running means
// m are the sums of `sums`, in that order: d = E[x - m], e = E[(x - m)^2]; the mean is m + d, the
// variance e - d^2.
void move_statistics(const RunningStatistics& how, std::int64_t samples,
                     std::span<const float* const> sums, std::int64_t channels, float* running);

// y = max(x, 0) and where x > 0, a bit a number; dx = dy there, else 0.
void rectify(const float* x, std::int64_t n, float* y, std::uint8_t* signs);
void rectify_gradient(const std::uint8_t* signs, const float* dy, std::int64_t n, float* dx);

struct Pooling {
  std::int64_t batch = 1;
  FeatureMap input, output;
  std::int64_t kernel_y = 1, kernel_x = 1;
  std::int64_t stride_y = 1, stride_x = 1;
  std::int64_t pad_y = 0, pad_x = 0;
};
// Each output's maximum, and its place in the window, row by row; of equal ones the first.
void max_pool(const Pooling& p, const float* x, float* y, std::uint8_t* places);
void max_pool_gradient(const Pooling& p, const std::uint8_t* places, const float* dy, float* dx);
// The mean of what of the window lies on the map.
void average_pool(const Pooling& p, const float* x, float* y);
void average_pool_gradient(const Pooling& p, const float* dy, float* dx);

// Each place of [batch, height, width, channels] becomes stride_y x stride_x; and back, their sum.
void upsample(const Pooling& p, const float* x, float* y);
void upsample_gradient(const Pooling& p, const float* dy, float* dx);

// Columns from..from + width of rows of `stride` numbers, to or from rows of `width`.
void put_columns(const float* x, std::int64_t rows, std::int64_t width, std::int64_t from,
                 std::int64_t stride, float* y);
void take_columns(const float* y, std::int64_t rows, std::int64_t width, std::int64_t from,
                  std::int64_t stride, float* x);

}  // namespace weir::cpu
