// One block a row. Columns that a row does not see are never read: what products left there does
// not matter.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/kernels/device.cuh"
#include "exec/cuda/kernels/softmax.hpp"

namespace weir::cuda {
namespace {

// The columns that a block's row sees: from `first` on, below `last`.
struct Seen {
  std::int64_t first, last;
  __device__ explicit Seen(const Matrices& size)
      : first(0), last(size.causal ? blockIdx.x % static_cast<unsigned>(size.s) + 1 : size.s) {
    if (size.window > 0 && last > size.window) first = last - size.window;
  }
};

// L elements of a row from column j on; `beside` where it does not see.
template <int L, class E>
__device__ void load_columns(const E* row, std::int64_t j, const Seen& seen, float beside,
                             float (&value)[L]) {
  if (j >= seen.last || j + L <= seen.first) {
    for (int i = 0; i < L; ++i) value[i] = beside;
    return;
  }
  load<L>(row + j, value);
  for (int i = 0; i < L; ++i)
    value[i] = j + i >= seen.first && j + i < seen.last ? value[i] : beside;
}

template <class E, int L>
__global__ void softmax_kernel(float scale, const float* scores, Matrices size, StepMask given,
                               E* p, E* masked) {
  const std::int64_t begin = std::int64_t{blockIdx.x} * size.s;
  const Seen seen(size);
  const std::int64_t start = std::int64_t{threadIdx.x} * L, stride = std::int64_t{blockDim.x} * L;
  const DropoutMask mask = at_this_step(given);
  // Phase 1: the largest score that the row sees. Subtracted below, it keeps exp from overflowing.
  float largest = -INFINITY;
  for (std::int64_t j = start; j < seen.last; j += stride) {
    float value[L];
    load_columns<L>(scores + begin, j, seen, -INFINITY, value);
    for (int i = 0; i < L; ++i) largest = fmaxf(largest, scale * value[i]);
  }
  largest = block_reduce(largest, Max{});
  // Phase 2: the sum of powers.
  float sum = 0;
  for (std::int64_t j = start; j < seen.last; j += stride) {
    float value[L];
    load_columns<L>(scores + begin, j, seen, -INFINITY, value);
    for (int i = 0; i < L; ++i) sum += expf(scale * value[i] - largest);
  }
  sum = block_reduce(sum, Sum{});
  // Phase 3: probabilities. To the row's end: what it does not see becomes 0, since the product
  // with the values reads whole rows.
  for (std::int64_t j = start; j < size.s; j += stride) {
    float value[L];
    load_columns<L>(scores + begin, j, seen, -INFINITY, value);
    // Rounded before the mask, so that the backward, which reads p, sees what the forward used.
    for (int i = 0; i < L; ++i) value[i] = rounded<E>(expf(scale * value[i] - largest) / sum);
    store<L>(p + begin + j, value);
    if (masked != nullptr) {
      float factor[L];
      factors<L>(mask, static_cast<std::uint64_t>(size.first + begin + j), factor);
      for (int i = 0; i < L; ++i) value[i] *= factor[i];
      store<L>(masked + begin + j, value);
    }
  }
}

template <class E, int L>
__global__ void softmax_gradient_kernel(float scale, const E* p, const float* dp, Matrices size,
                                        StepMask given, E* ds) {
  const std::int64_t begin = std::int64_t{blockIdx.x} * size.s;
  const Seen seen(size);
  const std::int64_t start = std::int64_t{threadIdx.x} * L, stride = std::int64_t{blockDim.x} * L;
  const DropoutMask mask = at_this_step(given);
  const auto gradient = [&](std::int64_t j, float(&value)[L], float(&g)[L]) {
    float factor[L];
    load_columns<L>(p + begin, j, seen, 0.0F, value);
    load_columns<L>(dp + begin, j, seen, 0.0F, g);
    // Numbered over all matrices: a call on a part of them draws the same mask.
    factors<L>(mask, static_cast<std::uint64_t>(size.first + begin + j), factor);
    for (int i = 0; i < L; ++i) g[i] *= factor[i];
  };
  // Phase 1: the sum of dp p over the row, the softmax's own term.
  float sum = 0;
  for (std::int64_t j = start; j < seen.last; j += stride) {
    float value[L], g[L];
    gradient(j, value, g);
    for (int i = 0; i < L; ++i) sum += g[i] * value[i];
  }
  sum = block_reduce(sum, Sum{});
  // Phase 2: ds, with zeros where the row does not see.
  for (std::int64_t j = start; j < size.s; j += stride) {
    float value[L], g[L];
    gradient(j, value, g);
    for (int i = 0; i < L; ++i) g[i] = scale * value[i] * (g[i] - sum);
    store<L>(ds + begin + j, g);
  }
}

unsigned rows_of(const Matrices& size) { return static_cast<unsigned>(size.count * size.s); }

}  // namespace

template <class E>
void softmax(float scale, const float* scores, const Matrices& size, const StepMask& mask, E* p,
             E* masked, cudaStream_t stream) {
  with_lanes<E>(takes_vectors<E>(size.s, scores, p, masked), [&](auto lanes) {
    constexpr int L = lanes;
    softmax_kernel<E, L><<<rows_of(size), threads_for_row(size.s, L), 0, stream>>>(
        scale, scores, size, mask, p, masked);
  });
  check_launch("softmax");
}
template void softmax(float, const float*, const Matrices&, const StepMask&, float*, float*,
                      cudaStream_t);
template void softmax(float, const float*, const Matrices&, const StepMask&, Bf16*, Bf16*,
                      cudaStream_t);

template <class E>
void softmax_gradient(float scale, const E* p, const float* dp, const Matrices& size,
                      const StepMask& mask, E* ds, cudaStream_t stream) {
  with_lanes<E>(takes_vectors<E>(size.s, p, dp, ds), [&](auto lanes) {
    constexpr int L = lanes;
    softmax_gradient_kernel<E, L>
        <<<rows_of(size), threads_for_row(size.s, L), 0, stream>>>(scale, p, dp, size, mask, ds);
  });
  check_launch("softmax_gradient");
}
template void softmax_gradient(float, const float*, const float*, const Matrices&, const StepMask&,
                               float*, cudaStream_t);
template void softmax_gradient(float, const Bf16*, const float*, const Matrices&, const StepMask&,
                               Bf16*, cudaStream_t);

}  // namespace weir::cuda
