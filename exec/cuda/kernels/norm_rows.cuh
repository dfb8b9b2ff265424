// What norms of rows share: what becomes of a row before its norm is taken, and how their kernels
// are chosen.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/cuda/kernels/device.cuh"

namespace weir::cuda {

// A kernel of its own each, since the random numbers of a mask take registers that the others need
// not have.
enum class Before : std::uint8_t { nothing, residual, masked_residual };

// L elements of x from element i on; with a residual x becomes residual + x * mask first.
template <class E, int L, Before kBefore>
__device__ void load_row(const E* residual, const StepMask& given, E* x, std::int64_t i,
                         float (&value)[L]) {
  load<L>(x + i, value);
  if constexpr (kBefore != Before::nothing) {
    float added[L];
    load<L>(residual + i, added);
    if constexpr (kBefore == Before::masked_residual) {
      float factor[L];
      factors<L>(at_this_step(given), static_cast<std::uint64_t>(i), factor);
      for (int k = 0; k < L; ++k) value[k] *= factor[k];
    }
    // Rounded before it is used: the norm sees the numbers that the residual stream keeps, and so
    // does the backward.
    for (int k = 0; k < L; ++k) value[k] = rounded<E>(added[k] + value[k]);
    store<L>(x + i, value);
  }
}

// dx, as it is stored, times the mask, at element i of `dropped`.
template <class E, int L>
__device__ void store_dropped(const StepMask& given, std::int64_t i, float (&dx)[L], E* dropped) {
  float factor[L];
  factors<L>(at_this_step(given), static_cast<std::uint64_t>(i), factor);
  for (int k = 0; k < L; ++k) dx[k] = rounded<E>(dx[k]) * factor[k];
  store<L>(dropped + i, dx);
}

// launch(lanes, before), both constants, for the kernel of which a block norms a row.
template <class E, class Launch>
void norm_each_row(bool vectors, const E* residual, const StepMask& mask, Launch launch) {
  with_lanes<E>(vectors, [&](auto lanes) {
    if (residual == nullptr) {
      launch(lanes, std::integral_constant<Before, Before::nothing>{});
    } else if (mask.mask.active()) {
      launch(lanes, std::integral_constant<Before, Before::masked_residual>{});
    } else {
      launch(lanes, std::integral_constant<Before, Before::residual>{});
    }
  });
}

// launch(drops), a constant: whether a gradient's kernels also write what is dropped.
template <class Launch>
void with_drops(bool drops, Launch launch) {
  if (drops) {
    launch(std::true_type{});
  } else {
    launch(std::false_type{});
  }
}

}  // namespace weir::cuda
