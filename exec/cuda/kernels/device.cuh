// What the kernels are written with: loads and stores of several elements at once, sums over a
// block, masks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

#include "exec/cuda/kernels/launch.cuh"
#include "exec/cuda/kernels/types.hpp"

namespace weir::cuda {

__device__ inline std::int64_t thread_index() {
  return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}

// The value as an E holds it.
template <class E>
__device__ float rounded(float value) {
  return static_cast<float>(static_cast<E>(value));
}

template <int L>
__device__ void load(const float* from, float (&to)[L]) {
  if constexpr (L % 4 == 0) {
    for (int i = 0; i < L / 4; ++i) {
      const float4 four = reinterpret_cast<const float4*>(from)[i];
      to[4 * i] = four.x;
      to[4 * i + 1] = four.y;
      to[4 * i + 2] = four.z;
      to[4 * i + 3] = four.w;
    }
  } else {
    for (int i = 0; i < L; ++i) to[i] = from[i];
  }
}

template <int L>
__device__ void store(float* to, const float (&from)[L]) {
  if constexpr (L % 4 == 0) {
    for (int i = 0; i < L / 4; ++i) {
      reinterpret_cast<float4*>(to)[i] =
          make_float4(from[4 * i], from[4 * i + 1], from[4 * i + 2], from[4 * i + 3]);
    }
  } else {
    for (int i = 0; i < L; ++i) to[i] = from[i];
  }
}

// Two bf16 lie in a word of 32 bits, the first in its lower half; a bf16 is the upper half of a
// float. Vectors go by way of words, because the members of a struct of __nv_bfloat162 are copied
// one by one, four bytes at a time.
__device__ inline void unpack(unsigned word, float& first, float& second) {
  const unsigned bits[2] = {word << 16U, word & 0xFFFF0000U};
  memcpy(&first, &bits[0], sizeof(float));
  memcpy(&second, &bits[1], sizeof(float));
}
// Rounds to nearest, ties to even.
__device__ inline unsigned pack(float first, float second) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
  unsigned word = 0;
  memcpy(&word, &pair, sizeof(word));
  return word;
}

__device__ inline void unpack(const uint4& words, float (&to)[8]) {
  unpack(words.x, to[0], to[1]);
  unpack(words.y, to[2], to[3]);
  unpack(words.z, to[4], to[5]);
  unpack(words.w, to[6], to[7]);
}
__device__ inline void unpack(const uint4& words, float (&to)[4]) { memcpy(to, &words, 16); }

template <int L>
__device__ void load(const Bf16* from, float (&to)[L]) {
  static_assert(L == 1 || L == 8, "one element or 16 bytes");
  if constexpr (L == 8) {
    unpack(*reinterpret_cast<const uint4*>(from), to);
  } else {
    to[0] = __bfloat162float(from[0]);
  }
}

template <int L>
__device__ void store(Bf16* to, const float (&from)[L]) {
  static_assert(L == 1 || L == 4 || L == 8, "one element, 8 bytes or 16");
  // Two bf16 a word: one store of 16 bytes instead of eight of 2.
  if constexpr (L == 8) {
    *reinterpret_cast<uint4*>(to) = make_uint4(pack(from[0], from[1]), pack(from[2], from[3]),
                                               pack(from[4], from[5]), pack(from[6], from[7]));
  } else if constexpr (L == 4) {
    *reinterpret_cast<uint2*>(to) = make_uint2(pack(from[0], from[1]), pack(from[2], from[3]));
  } else {
    to[0] = __float2bfloat16_rn(from[0]);
  }
}

struct Sum {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Max {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// Over a warp, by a butterfly: every lane gets the same bits.
template <class Combine, class T>
__device__ T warp_reduce(T value, Combine combine) {
  for (int apart = kWarp / 2; apart > 0; apart /= 2) {
    value = combine(value, __shfl_xor_sync(kWholeWarp, value, apart));
  }
  return value;
}

// Over a block of whole warps; every thread gets the same bits: within a warp, then warps in
// ascending order.
template <class Combine, class T>
__device__ T block_reduce(T value, Combine combine) {
  __shared__ T warps[kWarp];
  value = warp_reduce(value, combine);
  __syncthreads();  // warps may still be read from the call before
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = value;
  __syncthreads();
  T total = warps[0];
  for (unsigned warp = 1; warp < blockDim.x / kWarp; ++warp) total = combine(total, warps[warp]);
  return total;
}

__device__ inline std::int32_t target_of(const Targets& targets, std::int64_t row) {
  const std::int32_t word = targets.ids[row];
  if (!targets.fp32) return word;
  float number = 0;
  memcpy(&number, &word, sizeof(number));
  return static_cast<std::int32_t>(number);
}

__device__ inline DropoutMask at_this_step(const StepMask& given) {
  DropoutMask mask = given.mask;
  if (mask.active()) mask.step = given.numbers->step;
  return mask;
}

// The factors of elements first ... first + L - 1; one Philox block serves four that begin on a
// multiple of four.
template <int L>
__device__ void factors(const DropoutMask& mask, std::uint64_t first, float (&factor)[L]) {
  // A step without dropout draws no random numbers at all.
  if (!mask.active()) {
    for (int i = 0; i < L; ++i) factor[i] = 1.0F;
    return;
  }
  if constexpr (L % 4 == 0) {
    // Aligned: every Philox block is drawn once for its four elements.
    if (first % 4 == 0) {
      for (int b = 0; b < L / 4; ++b) {
        const PhiloxBlock block = mask.block(first / 4 + static_cast<std::uint64_t>(b));
        for (int k = 0; k < 4; ++k)
          factor[4 * b + k] = block.word[k] < mask.drop_below ? 0.0F : mask.scale;
      }
      return;
    }
  }
  // Which of a block's four words is chosen by comparing: an array that is indexed by a number of
  // the run lies in local memory.
  for (int i = 0; i < L; ++i) {
    const std::uint64_t element = first + static_cast<std::uint64_t>(i);
    const PhiloxBlock block = mask.block(element / 4);
    const auto place = static_cast<unsigned>(element % 4);
    const std::uint32_t low = place == 0 ? block.word[0] : block.word[1];
    const std::uint32_t high = place == 2 ? block.word[2] : block.word[3];
    factor[i] = (place < 2 ? low : high) < mask.drop_below ? 0.0F : mask.scale;
  }
}

}  // namespace weir::cuda
