// What the kernels of fused attention are written with: heads and where they lie, tiles in shared
// memory, and a row's eight threads (exec/cuda/kernels/flash_attention.cu).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "exec/cuda/kernels/attention_shape.hpp"

namespace weir::cuda::flash {

constexpr int kTile = 16;                    // rows of a block, and of the tiles it walks over
constexpr int kLanes = 8;                    // threads of a row
constexpr int kThreads = kTile * kLanes;     // four warps of four rows
constexpr int kMostWidth = 128;              // of a head
constexpr int kParts = kMostWidth / kLanes;  // elements of a row that a thread keeps, at most
constexpr int kPairStride =
    kTile + 1;  // of a tile x tile matrix in shared memory: no two rows in one bank
constexpr unsigned kWholeWarp = 0xFFFFFFFFU;

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline void store(float x, float* to) { *to = x; }
__device__ inline void store(float x, __nv_bfloat16* to) { *to = __float2bfloat16_rn(x); }

struct Sizes {
  int s, heads, kv_heads, d;
  int window;  // keys up to its own that a query sees: s where it sees all
  int ahead;   // keys behind its own that it sees: s where it sees all, 0 where attention is causal
  float scale;
  int first_head, all_heads;  // of the block whose heads these are some of
  AttentionMask mask;
};

__device__ inline DropoutMask mask_of(const Sizes& z) {
  DropoutMask mask = z.mask.mask;
  if (z.mask.step != nullptr) mask.step = *z.mask.step;
  return mask;
}

// One head of queries of one sample, and that of its keys and values: where their rows begin and
// how far apart they are.
struct Head {
  std::int64_t query, key, value;  // first element of each, in qkv
  std::int64_t context, rows;      // of the context, and of a number a row
  std::int64_t qkv_step, context_step;
  std::uint64_t matrix;  // which of the s x s matrices
  // Divided in 32 bits: a division of 64 is a call, and what it needs of registers went to memory.
  __device__ Head(const Sizes& z, int of_queries) {
    const int of_keys = of_queries / (z.heads / z.kv_heads);
    const std::int64_t sample = blockIdx.z, head = of_queries;
    // A row of qkv: all heads of queries, then those of keys, then those of values.
    qkv_step = static_cast<std::int64_t>(z.heads + 2 * z.kv_heads) * z.d;
    context_step = static_cast<std::int64_t>(z.heads) * z.d;
    query = sample * z.s * qkv_step + head * z.d;
    key = sample * z.s * qkv_step + (z.heads + of_keys) * static_cast<std::int64_t>(z.d);
    value = key + static_cast<std::int64_t>(z.kv_heads) * z.d;
    context = sample * z.s * context_step + head * z.d;
    // Statistics lie head by head, so that a tile's rows are neighbours.
    rows = (sample * z.heads + head) * z.s;
    matrix = static_cast<std::uint64_t>(sample * z.all_heads + z.first_head + head);
  }
};

// Whether query i sees key j, which may lie past s.
__device__ inline bool sees(const Sizes& z, int i, int j) {
  return j < z.s && j - i <= z.ahead && i - j < z.window;
}
// The first tile of keys that a tile of queries sees: of its first query's first key.
__device__ inline int first_keys(const Sizes& z, int first_query) {
  return max(first_query - z.window + 1, 0) / kTile * kTile;
}
// Below it are the keys that a tile of queries sees.
__device__ inline int last_keys(const Sizes& z, int first_query) {
  return min(z.s, first_query + kTile + z.ahead);
}
// The first tile of queries that sees a tile of keys.
__device__ inline int first_queries(const Sizes& z, int first_key) {
  return max(first_key - z.ahead, 0) / kTile * kTile;
}

// Rows [first, first + kTile) of d elements into shared memory, zeros past row s.
template <class T>
__device__ void load_tile(const T* from, std::int64_t step, int first, const Sizes& z,
                          float* tile) {
  for (int index = static_cast<int>(threadIdx.x); index < kTile * z.d; index += kThreads) {
    const int row = index / z.d, e = index % z.d;
    const bool inside = first + row < z.s;
    tile[row * (z.d + 1) + e] = inside ? to_float(from[(first + row) * step + e]) : 0.0F;
  }
}

__device__ inline void load_row_numbers(const float* from, int first, int s, float* tile) {
  const int row = static_cast<int>(threadIdx.x);
  if (row < kTile) tile[row] = first + row < s ? from[first + row] : 0.0F;
}

__device__ inline float dot(const float* a, const float* b, int d) {
  float sum = 0.0F;
  for (int e = 0; e < d; ++e) sum += a[e] * b[e];
  return sum;
}

// What dropout makes of probability (i, j).
__device__ inline float drop_factor(const DropoutMask& mask, const Sizes& z, std::uint64_t matrix,
                                    int i, int j) {
  if (!mask.active()) return 1.0F;
  const auto s = static_cast<std::uint64_t>(z.s);
  return mask.factor((matrix * s + static_cast<std::uint64_t>(i)) * s +
                     static_cast<std::uint64_t>(j));
}

// Over the 8 threads of a row; every thread of the warp must call it.
__device__ inline float row_max(float x) {
  for (int step = kLanes / 2; step > 0; step /= 2)
    x = fmaxf(x, __shfl_xor_sync(kWholeWarp, x, step));
  return x;
}
__device__ inline float row_sum(float x) {
  for (int step = kLanes / 2; step > 0; step /= 2) x += __shfl_xor_sync(kWholeWarp, x, step);
  return x;
}

// sums[part] += sum over the other side's rows of weights[row] * tile[row][lane + 8 part].
__device__ inline void accumulate(const float* weights, const float* tile, int d, int lane,
                                  float (&sums)[kParts]) {
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    const int e = lane + kLanes * part;
    if (e >= d) continue;
    float sum = sums[part];
    for (int row = 0; row < kTile; ++row) sum += weights[row] * tile[row * (d + 1) + e];
    sums[part] = sum;
  }
}

template <class T>
__device__ void store_row(const float (&sums)[kParts], float factor, int d, int lane, T* to) {
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    const int e = lane + kLanes * part;
    if (e < d) store(sums[part] * factor, to + e);
  }
}

// The query of a thread, in a block's tile of queries.
struct Query {
  int row, lane;  // of the tile, and which of the row's threads
  int first;      // query of the tile; the tiles that see most keys come first
  int i;          // below s: where the tile is longer than what is left, the last
  __device__ explicit Query(const Sizes& z)
      : row(static_cast<int>(threadIdx.x) / kLanes),
        lane(static_cast<int>(threadIdx.x) % kLanes),
        first(static_cast<int>(gridDim.x - 1 - blockIdx.x) * kTile),
        i(min(first + row, z.s - 1)) {}
};

}  // namespace weir::cuda::flash
