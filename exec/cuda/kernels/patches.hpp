// The patches of images: unfolded for a product with the weights, and what is done to the product.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/cuda/kernels/types.hpp"

namespace weir::cuda {

// Squares of side x side pixels, row by row; what is left of an image at its right and its lower
// edge is in none.
struct PatchGrid {
  std::int64_t images, height, width, channels, side;
  [[nodiscard]] WEIR_HOST_DEVICE std::int64_t across() const { return width / side; }
  [[nodiscard]] WEIR_HOST_DEVICE std::int64_t patches() const { return height / side * across(); }
  [[nodiscard]] WEIR_HOST_DEVICE std::int64_t numbers() const { return channels * side * side; }
};

// From [image, y, x, channel] to [image, patch, channel, y, x], the order of a row of weights.
template <class E>
void unfold(const float* images, const PatchGrid& grid, E* patches, cudaStream_t stream);

// In front of an image's patches stands the class token: its row is the first of `rows`.
template <class E>
struct PatchTables {
  const E *class_token, *bias;  // [width]
  const E* position;            // [rows, width]
};

// y[image, 0] = (class_token + position[0]) * mask, and y[image, r] = (y[image, r] + bias +
// position[r]) * mask.
template <class E>
void place_patches(const PatchTables<E>& tables, std::int64_t images, Rows image,
                   const StepMask& mask, E* y, cudaStream_t stream);

}  // namespace weir::cuda
