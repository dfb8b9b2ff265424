// What all kernels share: 16-byte packs of elements as fp32 values, sums over a warp or a block in a fixed order, and
// the dispatch from a number format to a template.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "exec/cuda/kernels/element.hpp"

namespace weir {

constexpr int kWarp = 32;

__device__ inline float to_float(float value) { return value; }
__device__ inline float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }
template <class T>
__device__ T from_float(float value);
template <>
__device__ inline float from_float<float>(float value) {
  return value;
}
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}

// kCount elements moved together: 16 bytes where kCount = kPackOf<T>, one element where rows are not aligned for that.
template <class T>
constexpr int kPackOf = 16 / sizeof(T);

template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T value[kCount];
};

template <int kCount, class T>
__device__ inline void load(const T* from, float (&to)[kCount]) {
  const auto pack = *reinterpret_cast<const Pack<T, kCount>*>(from);
#pragma unroll
  for (int i = 0; i < kCount; ++i) to[i] = to_float(pack.value[i]);
}

template <int kCount, class T>
__device__ inline void store(T* to, const float (&from)[kCount]) {
  Pack<T, kCount> pack;
#pragma unroll
  for (int i = 0; i < kCount; ++i) pack.value[i] = from_float<T>(from[i]);
  *reinterpret_cast<Pack<T, kCount>*>(to) = pack;
}

// The sum of all lanes, the same bits in each.
__device__ inline float warp_sum(float value) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(0xFFFFFFFFU, value, offset);
  return value;
}
__device__ inline float warp_max(float value) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2)
    value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFFU, value, offset));
  return value;
}

// Over a block of kThreads threads (a multiple of 32); every thread gets the result. `scratch` holds kThreads / 32.
template <int kThreads, class Combine>
__device__ inline float block_reduce(float value, float* scratch, float neutral, Combine warp_combine) {
  value = warp_combine(value);
  __syncthreads();  // scratch may still be read from the call before
  if (threadIdx.x % kWarp == 0) scratch[threadIdx.x / kWarp] = value;
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  return warp_combine(lane < kThreads / kWarp ? scratch[lane] : neutral);
}

// A failed launch is an error of the program (a bad grid, no code for this device), told with the kernel's name.
inline void check_launch(const char* kernel) {
  const cudaError_t status = cudaPeekAtLastError();
  if (status != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    throw std::runtime_error(std::string("launch of ") + kernel + ": " + cudaGetErrorString(status));
  }
}

inline unsigned blocks_for(std::int64_t items, std::int64_t per_block) {
  return static_cast<unsigned>((items + per_block - 1) / per_block);
}

// Calls action(T{}) with the C++ type of a number format.
template <class Action>
void with_element(Element element, Action&& action) {
  if (element == Element::fp32) {
    action(float{});
  } else {
    action(__nv_bfloat16{});
  }
}

template <class T>
bool aligned_for_packs(std::int64_t row_elements) {
  return row_elements % kPackOf<T> == 0;
}

}  // namespace weir
