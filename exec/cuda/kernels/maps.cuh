// Which number of a map a thread makes, and which windows a place lies in.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/cuda/kernels/device.cuh"
#include "exec/cuda/kernels/maps.hpp"

namespace weir::cuda {

constexpr std::int64_t kMostItems = 0xFFFFFFFF - kThreads;  // counted by threads of whole blocks

// L channels from c on, of a place of every image.
struct Spot {
  int y, x, c;
  bool there;
};

// Numbers of an image are counted in 32 bits: a division of 64 takes longer than what a thread
// moves.
template <int L>
__device__ Spot spot_of(int height, int width, int channels) {
  const unsigned vectors = static_cast<unsigned>(channels / L);
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x, place = i / vectors;
  const auto across = static_cast<unsigned>(width);
  return {static_cast<int>(place / across), static_cast<int>(place % across),
          static_cast<int>(i % vectors) * L, place < static_cast<unsigned>(height) * across};
}

// Numbers in front of place (y, x) of an image.
__device__ inline std::int64_t place_in(const Windows& w, int image, int y, int x) {
  return ((std::int64_t{image} * w.in_height + y) * w.in_width + x) * w.channels;
}
__device__ inline std::int64_t place_out(const Windows& w, int image, int y, int x) {
  return ((std::int64_t{image} * w.out_height + y) * w.out_width + x) * w.channels;
}

// A thread for each L channels of a place; images in y.
inline dim3 grid_of_maps(std::int64_t places, int channels, int lanes, int images) {
  const std::int64_t items = places * (channels / lanes);
  if (items > kMostItems) throw RunFailed("a map of one image has too many numbers");
  const auto in_y = static_cast<unsigned>(images);
  return {blocks_for(items), in_y < kMostInY ? in_y : kMostInY};
}

}  // namespace weir::cuda
