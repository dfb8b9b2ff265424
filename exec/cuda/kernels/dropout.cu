// A thread takes L elements; the last one takes what is left one by one.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/kernels/device.cuh"
#include "exec/cuda/kernels/dropout.hpp"

namespace weir::cuda {
namespace {

// y = x * mask, or y * mask + x with kAdd, from element i on; the mask's elements begin at `first`.
template <class E, int L, bool kAdd>
__device__ void drop_some(const DropoutMask& mask, std::uint64_t first, const E* x, std::int64_t i,
                          E* y) {
  float value[L], factor[L];
  // Drawn again by element number instead of kept: forward and backward see the same mask.
  factors<L>(mask, first + static_cast<std::uint64_t>(i), factor);
  load<L>(x + i, value);
  if constexpr (kAdd) {
    float masked[L];
    load<L>(y + i, masked);
    for (int k = 0; k < L; ++k) value[k] += masked[k] * factor[k];
  } else {
    for (int k = 0; k < L; ++k) value[k] *= factor[k];
  }
  store<L>(y + i, value);
}

template <class E, int L, bool kAdd>
__global__ void dropout_kernel(StepMask given, std::uint64_t first, const E* x, std::int64_t n,
                               E* y) {
  const DropoutMask mask = at_this_step(given);
  std::int64_t i = thread_index() * L;
  if (i + L <= n) {
    drop_some<E, L, kAdd>(mask, first, x, i, y);
  } else {
    for (; i < n; ++i) drop_some<E, 1, kAdd>(mask, first, x, i, y);
  }
}

template <class E, bool kAdd>
void run_dropout(const StepMask& mask, std::uint64_t first, const E* x, std::int64_t n, E* y,
                 cudaStream_t stream) {
  with_lanes<E>(begins_on_16_bytes(x) && begins_on_16_bytes(y), [&](auto lanes) {
    constexpr int L = lanes;
    dropout_kernel<E, L, kAdd>
        <<<blocks_for(n, kThreads * L), kThreads, 0, stream>>>(mask, first, x, n, y);
  });
  check_launch("dropout");
}

}  // namespace

template <class E>
void dropout(const StepMask& mask, std::uint64_t first, const E* x, std::int64_t n, E* y,
             cudaStream_t stream) {
  run_dropout<E, false>(mask, first, x, n, y, stream);
}
template void dropout(const StepMask&, std::uint64_t, const float*, std::int64_t, float*,
                      cudaStream_t);
template void dropout(const StepMask&, std::uint64_t, const Bf16*, std::int64_t, Bf16*,
                      cudaStream_t);

template <class E>
void dropout_add(const StepMask& mask, const E* x, std::int64_t n, E* y, cudaStream_t stream) {
  run_dropout<E, true>(mask, 0, x, n, y, stream);
}
template void dropout_add(const StepMask&, const float*, std::int64_t, float*, cudaStream_t);
template void dropout_add(const StepMask&, const Bf16*, std::int64_t, Bf16*, cudaStream_t);

}  // namespace weir::cuda
