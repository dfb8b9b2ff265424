// Windows of convolutions as rows of a matrix, and weights in their order (plan/model/unfolding).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/cuda/kernels/maps.hpp"
#include "plan/model/unfolding.hpp"

namespace weir::cuda {

struct Filter {
  Windows windows;
  std::int32_t groups = 1;
  std::int32_t outputs = 1;  // channels
  std::int32_t padded = 1;   // numbers of a group in a row, with the zeros at its end

  [[nodiscard]] WEIR_HOST_DEVICE std::int32_t taps() const {
    return windows.kernel_y * windows.kernel_x;
  }
  // Channels of the input that an output sees.
  [[nodiscard]] WEIR_HOST_DEVICE std::int32_t seen() const { return windows.channels / groups; }
  [[nodiscard]] std::int64_t places() const {
    return std::int64_t{windows.out_height} * windows.out_width;
  }
  [[nodiscard]] std::int64_t row() const { return std::int64_t{groups} * padded; }
};

// rows[i] = the window of output run.first + i. At most 2^32 numbers.
template <class E>
void unfold_windows(const E* x, const Filter& filter, const PlaceRun& run, E* rows,
                    cudaStream_t stream);

// dx = of each of the band's places, the sum over the windows that it lies in: its numbers of these
// outputs' rows, [image, output line, output column], in their order.
template <class E>
void fold_windows(const float* rows, const Filter& filter, const LineBand& band, E* dx,
                  cudaStream_t stream);

// From [output, channel, y, x] to [output, y, x, channel], padded.
template <class E>
void order_weights(const E* weights, const Filter& filter, E* ordered, cudaStream_t stream);
// And back: dw (+)= a gradient in that order.
void add_ordered(const float* ordered, const Filter& filter, Beta beta, float* dw,
                 cudaStream_t stream);

}  // namespace weir::cuda
