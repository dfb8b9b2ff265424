// Where to start: `forward_kernel`. All three kernels over tiles have one shape: a block of 128
// threads owns kTile rows of one head - queries, or in `key_value_kernel` keys - as 8 threads a
// row, walks over tiles of the other side in ascending order, and each thread keeps every eighth
// element of its row's sums in registers:
//
//          other side's tile (kTile)          thread `lane` of row r:
//        +-------------------------+            scores with others lane, lane + 8
//  row r |  scores, 8 threads a row |            sums of elements lane, lane + 8, ... of d
//        +-------------------------+
//
// A warp holds four whole rows, so what a row's threads tell each other stays within it. Legend: i
// query, j key, e element of a head; L the log-sum-exp of a query's scaled scores, D the sum of its
// context times that's gradient.
//
//   p = exp(q k' scale - L)    dp = (dc v') mask    ds = p (dp - D) scale
//   dq = ds k    dk = ds' q    dv = (p mask)' dc
// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>

#include <cassert>

#include "exec/cuda/driver/cuda_check.hpp"
#include "exec/cuda/kernels/flash_attention.hpp"

namespace weir::cuda {
namespace {

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
  int s, heads, d;
  float scale;
  AttentionMask mask;
};

__device__ inline DropoutMask mask_of(const Sizes& z) {
  DropoutMask mask = z.mask.mask;
  if (z.mask.step != nullptr) mask.step = *z.mask.step;
  return mask;
}

// One head of one sample, by its block: where its rows begin and how far apart they are.
struct Head {
  std::int64_t qkv, context, rows;  // first element of q, of the context, of a number a row
  std::int64_t qkv_step, context_step, part;
  std::uint64_t matrix;  // which of the s x s matrices
  __device__ explicit Head(const Sizes& z) {
    const std::int64_t width = static_cast<std::int64_t>(z.heads) * z.d, head = blockIdx.y,
                       sample = blockIdx.z;
    qkv_step = 3 * width;
    context_step = width;
    part = width;
    qkv = sample * z.s * qkv_step + head * z.d;
    context = sample * z.s * context_step + head * z.d;
    rows = (sample * z.heads + head) * z.s;
    matrix = static_cast<std::uint64_t>(sample * z.heads + head);
  }
};

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

// Online softmax: after each tile of keys, `largest` and `total` are the maximum and the sum of
// exp(score - largest) of the keys so far, and sums[e] the sum of exp(score - largest) mask v. A
// row past s does as row s - 1 with a query of zeros, and stores nothing; so every row sees key 0
// and `largest` is finite after the first tile.
template <class T>
__global__ void forward_kernel(Sizes z, const T* qkv, T* context, float* statistics) {
  extern __shared__ float shared[];
  float* q = shared;
  float* k = q + kTile * (z.d + 1);
  float* v = k + kTile * (z.d + 1);
  float* p = v + kTile * (z.d + 1);
  const Head head(z);
  const DropoutMask mask = mask_of(z);
  const auto [row, lane, first, i] = Query(z);
  load_tile(qkv + head.qkv, head.qkv_step, first, z, q);
  float sums[kParts] = {};
  float largest = -INFINITY, total = 0.0F;
  for (int keys = 0; keys < first + kTile && keys < z.s; keys += kTile) {
    __syncthreads();  // the tiles before have been read
    load_tile(qkv + head.qkv + head.part, head.qkv_step, keys, z, k);
    load_tile(qkv + head.qkv + 2 * head.part, head.qkv_step, keys, z, v);
    __syncthreads();
    float score[kTile / kLanes];
    float new_largest = largest;
#pragma unroll
    for (int n = 0; n < kTile / kLanes; ++n) {
      const int j = lane + kLanes * n;
      const bool seen = keys + j <= i;  // and so below s
      score[n] = seen ? dot(q + row * (z.d + 1), k + j * (z.d + 1), z.d) * z.scale : -INFINITY;
      new_largest = fmaxf(new_largest, score[n]);
    }
    new_largest = row_max(new_largest);
    const float shrink = expf(largest - new_largest);  // 0 at the first tile
    float tile_total = 0.0F;
#pragma unroll
    for (int n = 0; n < kTile / kLanes; ++n) {
      const int j = lane + kLanes * n;
      const float power = expf(score[n] - new_largest);  // 0 where the key is not seen
      tile_total += power;
      p[row * kPairStride + j] =
          power > 0.0F ? power * drop_factor(mask, z, head.matrix, i, keys + j) : 0.0F;
    }
    total = total * shrink + row_sum(tile_total);
    largest = new_largest;
#pragma unroll
    for (int part = 0; part < kParts; ++part) sums[part] *= shrink;
    __syncwarp();  // p of this row is written
    accumulate(p + row * kPairStride, v, z.d, lane, sums);
    __syncwarp();  // and read
  }
  if (first + row >= z.s) return;
  store_row(sums, 1.0F / total, z.d, lane, context + head.context + i * head.context_step);
  if (lane == 0) statistics[head.rows + i] = largest + logf(total);
}

// D of every row: one warp a row.
template <class T>
__global__ void row_sums_kernel(Sizes z, std::int64_t rows, const T* context, const T* d_context,
                                float* row_sums) {
  const std::int64_t row =
      static_cast<std::int64_t>(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32;
  if (row >= rows) return;  // whole warps
  const std::int64_t i = row % z.s, head = row / z.s % z.heads, sample = row / z.s / z.heads;
  const std::int64_t at = ((sample * z.s + i) * z.heads + head) * z.d;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float sum = 0.0F;
  for (int e = lane; e < z.d; e += 32)
    sum += to_float(context[at + e]) * to_float(d_context[at + e]);
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(kWholeWarp, sum, step);
  if (lane == 0) row_sums[row] = sum;
}

// dq of a tile of queries, over the tiles of keys they see.
template <class T>
__global__ void query_kernel(Sizes z, const T* qkv, const T* d_context, const float* statistics,
                             const float* row_sums, T* d_qkv) {
  extern __shared__ float shared[];
  float* q = shared;
  float* dc = q + kTile * (z.d + 1);
  float* k = dc + kTile * (z.d + 1);
  float* v = k + kTile * (z.d + 1);
  float* ds = v + kTile * (z.d + 1);
  const Head head(z);
  const DropoutMask mask = mask_of(z);
  const auto [row, lane, first, i] = Query(z);
  load_tile(qkv + head.qkv, head.qkv_step, first, z, q);
  load_tile(d_context + head.context, head.context_step, first, z, dc);
  const float l = statistics[head.rows + i], sum = row_sums[head.rows + i];
  float sums[kParts] = {};
  for (int keys = 0; keys < first + kTile && keys < z.s; keys += kTile) {
    __syncthreads();
    load_tile(qkv + head.qkv + head.part, head.qkv_step, keys, z, k);
    load_tile(qkv + head.qkv + 2 * head.part, head.qkv_step, keys, z, v);
    __syncthreads();
#pragma unroll
    for (int n = 0; n < kTile / kLanes; ++n) {
      const int j = lane + kLanes * n;
      float gradient = 0.0F;
      if (first + row < z.s && keys + j <= i) {
        const float p = expf(dot(q + row * (z.d + 1), k + j * (z.d + 1), z.d) * z.scale - l);
        const float dp = dot(dc + row * (z.d + 1), v + j * (z.d + 1), z.d) *
                         drop_factor(mask, z, head.matrix, i, keys + j);
        gradient = p * (dp - sum) * z.scale;
      }
      ds[row * kPairStride + j] = gradient;
    }
    __syncwarp();
    accumulate(ds + row * kPairStride, k, z.d, lane, sums);
    __syncwarp();
  }
  if (first + row < z.s) store_row(sums, 1.0F, z.d, lane, d_qkv + head.qkv + i * head.qkv_step);
}

// dk and dv of a tile of keys, over the tiles of queries that see them. Row: a key; j is its index.
template <class T>
__global__ void key_value_kernel(Sizes z, const T* qkv, const T* d_context, const float* statistics,
                                 const float* row_sums, T* d_qkv) {
  extern __shared__ float shared[];
  float* k = shared;
  float* v = k + kTile * (z.d + 1);
  float* q = v + kTile * (z.d + 1);
  float* dc = q + kTile * (z.d + 1);
  float* p = dc + kTile * (z.d + 1);
  float* ds = p + kTile * kPairStride;
  float* l = ds + kTile * kPairStride;
  float* d_sums = l + kTile;
  const Head head(z);
  const DropoutMask mask = mask_of(z);
  const int row = static_cast<int>(threadIdx.x) / kLanes,
            lane = static_cast<int>(threadIdx.x) % kLanes;
  const int first =
      static_cast<int>(blockIdx.x) * kTile;  // the first keys are seen by most queries
  const int j = first + row;
  load_tile(qkv + head.qkv + head.part, head.qkv_step, first, z, k);
  load_tile(qkv + head.qkv + 2 * head.part, head.qkv_step, first, z, v);
  float dk[kParts] = {}, dv[kParts] = {};
  for (int queries = first; queries < z.s; queries += kTile) {
    __syncthreads();
    load_tile(qkv + head.qkv, head.qkv_step, queries, z, q);
    load_tile(d_context + head.context, head.context_step, queries, z, dc);
    load_row_numbers(statistics + head.rows, queries, z.s, l);
    load_row_numbers(row_sums + head.rows, queries, z.s, d_sums);
    __syncthreads();
#pragma unroll
    for (int n = 0; n < kTile / kLanes; ++n) {
      const int other = lane + kLanes * n, i = queries + other;
      float probability = 0.0F, gradient = 0.0F;
      if (i < z.s && j <= i) {
        const float factor = drop_factor(mask, z, head.matrix, i, j);
        const float power =
            expf(dot(q + other * (z.d + 1), k + row * (z.d + 1), z.d) * z.scale - l[other]);
        const float dp = dot(dc + other * (z.d + 1), v + row * (z.d + 1), z.d) * factor;
        probability = power * factor;
        gradient = power * (dp - d_sums[other]) * z.scale;
      }
      p[row * kPairStride + other] = probability;
      ds[row * kPairStride + other] = gradient;
    }
    __syncwarp();
    accumulate(p + row * kPairStride, dc, z.d, lane, dv);
    accumulate(ds + row * kPairStride, q, z.d, lane, dk);
    __syncwarp();
  }
  if (j >= z.s) return;
  T* to = d_qkv + head.qkv + j * head.qkv_step;
  store_row(dk, 1.0F, z.d, lane, to + head.part);
  store_row(dv, 1.0F, z.d, lane, to + 2 * head.part);
}

// Bytes of `tiles` tiles, `pairs` tile x tile matrices and `numbers` numbers a row; 35 KB at most,
// within the 48 KB that every device gives a block unasked.
std::size_t shared_bytes(const AttentionShape& shape, std::int64_t tiles, std::int64_t pairs,
                         std::int64_t numbers) {
  return static_cast<std::size_t>(tiles * kTile * (shape.d + 1) + pairs * kTile * kPairStride +
                                  numbers * kTile) *
         sizeof(float);
}

Sizes sizes_of(const AttentionShape& shape, const AttentionMask& mask) {
  return {static_cast<int>(shape.s), static_cast<int>(shape.heads), static_cast<int>(shape.d),
          shape.scale(), mask};
}

dim3 grid_of(const AttentionShape& shape) {
  return {static_cast<unsigned>((shape.s + kTile - 1) / kTile), static_cast<unsigned>(shape.heads),
          static_cast<unsigned>(shape.batch)};
}

template <class T>
void run_forward(const AttentionShape& shape, const AttentionForward& call, cudaStream_t stream) {
  forward_kernel<T><<<grid_of(shape), kThreads, shared_bytes(shape, 3, 1, 0), stream>>>(
      sizes_of(shape, call.mask), static_cast<const T*>(call.qkv), static_cast<T*>(call.context),
      call.statistics);
  CUDA_CHECK(cudaGetLastError());
}

template <class T>
void run_backward(const AttentionShape& shape, const AttentionBackward& call, cudaStream_t stream) {
  const Sizes z = sizes_of(shape, call.mask);
  const auto* qkv = static_cast<const T*>(call.qkv);
  const auto* d_context = static_cast<const T*>(call.d_context);
  auto* d_qkv = static_cast<T*>(call.d_qkv);
  constexpr std::int64_t kRowsOfBlock = kThreads / 32;
  row_sums_kernel<T>
      <<<static_cast<unsigned>((shape.rows() + kRowsOfBlock - 1) / kRowsOfBlock), kThreads, 0,
         stream>>>(z, shape.rows(), static_cast<const T*>(call.context), d_context, call.row_sums);
  CUDA_CHECK(cudaGetLastError());
  query_kernel<T><<<grid_of(shape), kThreads, shared_bytes(shape, 4, 1, 0), stream>>>(
      z, qkv, d_context, call.statistics, call.row_sums, d_qkv);
  CUDA_CHECK(cudaGetLastError());
  key_value_kernel<T><<<grid_of(shape), kThreads, shared_bytes(shape, 4, 2, 2), stream>>>(
      z, qkv, d_context, call.statistics, call.row_sums, d_qkv);
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace

bool flash_suits(const AttentionShape& shape) {
  constexpr std::int64_t kMostBlocks = 65535;  // of a grid's second and third dimension
  return shape.dtype != Dtype::fp16 && shape.d >= 1 && shape.d <= kMostWidth &&
         shape.heads <= kMostBlocks && shape.batch <= kMostBlocks && shape.s < (1 << 30);
}

void flash_forward(const AttentionShape& shape, const AttentionForward& call, cudaStream_t stream) {
  assert(flash_suits(shape) && "a shape that the kernels were not written for");
  if (shape.dtype == Dtype::bf16) return run_forward<__nv_bfloat16>(shape, call, stream);
  run_forward<float>(shape, call, stream);
}

void flash_backward(const AttentionShape& shape, const AttentionBackward& call,
                    cudaStream_t stream) {
  assert(flash_suits(shape) && "a shape that the kernels were not written for");
  if (shape.dtype == Dtype::bf16) return run_backward<__nv_bfloat16>(shape, call, stream);
  run_backward<float>(shape, call, stream);
}

}  // namespace weir::cuda
