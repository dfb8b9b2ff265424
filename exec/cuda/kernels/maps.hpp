// Maps of convolutional networks, [images, height, width, channels]: what is done to them beside
// convolutions and norms. A thread makes one number, or 16 bytes of channels, from what it reads,
// so that no sum depends on who comes first.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/cuda/kernels/types.hpp"

namespace weir::cuda {

// Of an input's places, those that each output's place is made of. A pad below 0 begins so much
// further on.
struct Windows {
  std::int32_t images = 1, channels = 1;  // of the input
  std::int32_t in_height = 1, in_width = 1, out_height = 1, out_width = 1;
  std::int32_t kernel_y = 1, kernel_x = 1;
  std::int32_t stride_y = 1, stride_x = 1;
  std::int32_t pad_y = 0, pad_x = 0;
};

// Outputs from `first` to `last` have place y of the input in their window; none: last < first.
// What is unfolded in pieces counts on the same lines (plan/model/unfolding.cpp).
struct Reach {
  int first, last;
};
WEIR_HOST_DEVICE inline Reach outputs_that_see(int y, int outputs, int kernel, int stride,
                                               int pad) {
  // The window of output o begins at o * stride - pad.
  const int low = y + pad - kernel + 1, high = y + pad;
  const int last = high < 0 ? -1 : high / stride;
  return {low <= 0 ? 0 : (low + stride - 1) / stride, last < outputs ? last : outputs - 1};
}

// Each output's maximum, and its place in the window, row by row; of equal ones the first.
template <class E>
void max_pool(const Windows& windows, const E* x, E* y, std::uint8_t* places, cudaStream_t stream);
template <class E>
void max_pool_gradient(const Windows& windows, const std::uint8_t* places, const E* dy, E* dx,
                       cudaStream_t stream);
// The mean of what of the window lies on the map.
template <class E>
void average_pool(const Windows& windows, const E* x, E* y, cudaStream_t stream);
template <class E>
void average_pool_gradient(const Windows& windows, const E* dy, E* dx, cudaStream_t stream);

// Each place becomes stride_y x stride_x; and back, their sum.
template <class E>
void upsample(const Windows& windows, const E* x, E* y, cudaStream_t stream);
template <class E>
void upsample_gradient(const Windows& windows, const E* dy, E* dx, cudaStream_t stream);

// y = max(x, 0) and where x > 0, a bit a number; dx = dy there, else 0. Arrays begin on 16 bytes.
template <class E>
void rectify(const E* x, std::int64_t n, E* y, std::uint8_t* signs, cudaStream_t stream);
template <class E>
void rectify_gradient(const std::uint8_t* signs, const E* dy, std::int64_t n, E* dx,
                      cudaStream_t stream);

// y = a + b; y may be either.
template <class E>
void add(const E* a, const E* b, std::int64_t n, E* y, cudaStream_t stream);

// `width` numbers of each row, from one place in rows of a length to another in rows of another.
struct Columns {
  std::int64_t rows = 0, width = 0;
  std::int64_t from_offset = 0, from_row = 0;
  std::int64_t to_offset = 0, to_row = 0;
};
template <class E>
void copy_columns(const Columns& columns, const E* from, E* to, cudaStream_t stream);

// to[i] = from[i], rounded.
template <class From, class To>
void convert(const From* from, std::int64_t n, To* to, cudaStream_t stream);

}  // namespace weir::cuda
