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
// context times that's gradient. Several heads of queries may share one of keys and values, whose
// gradients are then sums over them, in ascending order.
//
//   p = exp(q k' scale - L)    dp = (dc v') mask    ds = p (dp - D) scale
//   dq = ds k    dk = ds' q    dv = (p mask)' dc
// SPDX-License-Identifier: Apache-2.0
#include <cassert>

#include "exec/cuda/driver/cuda_check.hpp"
#include "exec/cuda/kernels/flash_attention.hpp"
#include "exec/cuda/kernels/flash_tiles.cuh"

namespace weir::cuda {
namespace {

using namespace flash;

// Online softmax: after each tile of keys, `largest` and `total` are the maximum and the sum of
// exp(score - largest) of the keys so far, and sums[e] the sum of exp(score - largest) mask v. A
// row past s does as row s - 1 with a query of zeros, and stores nothing; so every row sees a key.
// Before the first that it sees `largest` is minus infinity: behind a window's first tiles too.
template <class T>
__global__ void forward_kernel(Sizes z, const T* qkv, T* context, float* statistics) {
  extern __shared__ float shared[];
  float* q = shared;
  float* k = q + kTile * (z.d + 1);
  float* v = k + kTile * (z.d + 1);
  float* p = v + kTile * (z.d + 1);
  const Head head(z, static_cast<int>(blockIdx.y));
  const DropoutMask mask = mask_of(z);
  const Query own(z);
  const int row = own.row, lane = own.lane, first = own.first, i = own.i;
  // Phase 1: the block's queries stay in shared memory for all tiles of keys.
  load_tile(qkv + head.query, head.qkv_step, first, z, q);
  float sums[kParts] = {};
  float largest = -INFINITY, total = 0.0F;
  for (int keys = first_keys(z, first); keys < last_keys(z, first); keys += kTile) {
    __syncthreads();  // the tiles before have been read
    load_tile(qkv + head.key, head.qkv_step, keys, z, k);
    load_tile(qkv + head.value, head.qkv_step, keys, z, v);
    __syncthreads();
    // Phase 2: scores of this tile, and the maximum with those before.
    float score[kTile / kLanes];
    float new_largest = largest;
#pragma unroll
    for (int n = 0; n < kTile / kLanes; ++n) {
      const int j = lane + kLanes * n;
      const bool seen = sees(z, i, keys + j);
      score[n] = seen ? dot(q + row * (z.d + 1), k + j * (z.d + 1), z.d) * z.scale : -INFINITY;
      new_largest = fmaxf(new_largest, score[n]);
    }
    new_largest = row_max(new_largest);
    const float base = new_largest == -INFINITY ? 0.0F : new_largest;  // no key was seen yet
    // Phase 3: sums so far were taken relative to the old maximum; `shrink` brings them to the new
    // one.
    const float shrink = expf(largest - base);  // 0 up to the first tile with a key
    float tile_total = 0.0F;
#pragma unroll
    for (int n = 0; n < kTile / kLanes; ++n) {
      const int j = lane + kLanes * n;
      const float power = expf(score[n] - base);  // 0 where the key is not seen
      // The total takes powers before dropout, which acts on probabilities, after the division.
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
  // Phase 4: divide once at the end instead of after each tile, and keep L for the backward.
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
  // The lanes read neighbouring elements, so that a warp's loads coalesce.
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
  const Head head(z, static_cast<int>(blockIdx.y));
  const DropoutMask mask = mask_of(z);
  const Query own(z);
  const int row = own.row, lane = own.lane, first = own.first, i = own.i;
  load_tile(qkv + head.query, head.qkv_step, first, z, q);
  load_tile(d_context + head.context, head.context_step, first, z, dc);
  // L and D are the two sums over a row, so that one walk over the keys is enough.
  const float l = statistics[head.rows + i], sum = row_sums[head.rows + i];
  float sums[kParts] = {};
  // Keys in ascending order, whatever the block: dq's sum has the same bits in every run.
  for (int keys = first_keys(z, first); keys < last_keys(z, first); keys += kTile) {
    __syncthreads();
    load_tile(qkv + head.key, head.qkv_step, keys, z, k);
    load_tile(qkv + head.value, head.qkv_step, keys, z, v);
    __syncthreads();
#pragma unroll
    // Phase 1: p and dp again from q, k, dc and v, and of them ds. Nothing of size s x s was kept.
    for (int n = 0; n < kTile / kLanes; ++n) {
      const int j = lane + kLanes * n;
      float gradient = 0.0F;
      // Rows past s repeat a real row's numbers; their ds must not count.
      if (first + row < z.s && sees(z, i, keys + j)) {
        const float p = expf(dot(q + row * (z.d + 1), k + j * (z.d + 1), z.d) * z.scale - l);
        const float dp = dot(dc + row * (z.d + 1), v + j * (z.d + 1), z.d) *
                         drop_factor(mask, z, head.matrix, i, keys + j);
        gradient = p * (dp - sum) * z.scale;
      }
      ds[row * kPairStride + j] = gradient;
    }
    // Phase 2: dq += ds k. The row's eight threads are one warp's, so a warp barrier is enough.
    __syncwarp();
    accumulate(ds + row * kPairStride, k, z.d, lane, sums);
    __syncwarp();
  }
  if (first + row < z.s) store_row(sums, 1.0F, z.d, lane, d_qkv + head.query + i * head.qkv_step);
}

// dk and dv of a tile of keys, over the heads of queries that share them, and of each the tiles of
// queries that see them. Row: a key; j is its index.
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
  const DropoutMask mask = mask_of(z);
  const int row = static_cast<int>(threadIdx.x) / kLanes,
            lane = static_cast<int>(threadIdx.x) % kLanes;
  const int first =
      static_cast<int>(blockIdx.x) * kTile;  // the first keys are seen by most queries
  const int j = first + row, last = min(z.s, first + kTile - 1 + z.window);  // below it they see
  const int group = z.heads / z.kv_heads;
  const int first_head = static_cast<int>(blockIdx.y) * group;
  // A block owns its keys and walks over queries: dk and dv need no atomic.
  const Head shared_head(z, first_head);
  load_tile(qkv + shared_head.key, shared_head.qkv_step, first, z, k);
  load_tile(qkv + shared_head.value, shared_head.qkv_step, first, z, v);
  float dk[kParts] = {}, dv[kParts] = {};
  // Heads of the group one after the other: their gradients are sums in ascending order.
  for (int of_group = 0; of_group < group; ++of_group) {
    const Head head(z, first_head + of_group);
    // Where attention is causal, earlier queries see none of these keys; from `last` on the window
    // hides them.
    for (int queries = first_queries(z, first); queries < last; queries += kTile) {
      // The tiles before have been read by all warps.
      __syncthreads();
      load_tile(qkv + head.query, head.qkv_step, queries, z, q);
      load_tile(d_context + head.context, head.context_step, queries, z, dc);
      load_row_numbers(statistics + head.rows, queries, z.s, l);
      load_row_numbers(row_sums + head.rows, queries, z.s, d_sums);
      __syncthreads();
#pragma unroll
      // Phase 1: transposed, so that a row is a key and the loop runs over queries.
      for (int n = 0; n < kTile / kLanes; ++n) {
        const int other = lane + kLanes * n, i = queries + other;
        float probability = 0.0F, gradient = 0.0F;
        if (i < z.s && sees(z, i, j)) {
          const float factor = drop_factor(mask, z, head.matrix, i, j);
          const float power =
              expf(dot(q + other * (z.d + 1), k + row * (z.d + 1), z.d) * z.scale - l[other]);
          const float dp = dot(dc + other * (z.d + 1), v + row * (z.d + 1), z.d) * factor;
          // dv takes the dropped probability; ds the undropped, as dp already carries the mask.
          probability = power * factor;
          gradient = power * (dp - d_sums[other]) * z.scale;
        }
        p[row * kPairStride + other] = probability;
        ds[row * kPairStride + other] = gradient;
      }
      // Phase 2: dv += p dc and dk += ds q.
      __syncwarp();
      accumulate(p + row * kPairStride, dc, z.d, lane, dv);
      accumulate(ds + row * kPairStride, q, z.d, lane, dk);
      __syncwarp();
    }
  }
  if (j >= z.s) return;
  const std::int64_t at = j * shared_head.qkv_step;
  store_row(dk, 1.0F, z.d, lane, d_qkv + shared_head.key + at);
  store_row(dv, 1.0F, z.d, lane, d_qkv + shared_head.value + at);
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
  return {.s = static_cast<int>(shape.s),
          .heads = static_cast<int>(shape.heads),
          .kv_heads = static_cast<int>(shape.kv_heads),
          .d = static_cast<int>(shape.d),
          .window = static_cast<int>(shape.window > 0 ? shape.window : shape.s),
          .ahead = static_cast<int>(shape.causal ? 0 : shape.s),
          .scale = shape.scale(),
          .first_head = static_cast<int>(shape.first_head),
          .all_heads = static_cast<int>(shape.all_heads),
          .mask = mask};
}

// A block for each tile of each of so many heads.
dim3 grid_of(const AttentionShape& shape, std::int64_t heads) {
  return {static_cast<unsigned>((shape.s + kTile - 1) / kTile), static_cast<unsigned>(heads),
          static_cast<unsigned>(shape.batch)};
}

template <class T>
void run_forward(const AttentionShape& shape, const AttentionForward& call, cudaStream_t stream) {
  forward_kernel<T>
      <<<grid_of(shape, shape.heads), kThreads, shared_bytes(shape, 3, 1, 0), stream>>>(
          sizes_of(shape, call.mask), static_cast<const T*>(call.qkv),
          static_cast<T*>(call.context), call.statistics);
  CUDA_CHECK(cudaGetLastError());
}

template <class T>
void run_backward(const AttentionShape& shape, const AttentionBackward& call, cudaStream_t stream) {
  const Sizes z = sizes_of(shape, call.mask);
  const auto* qkv = static_cast<const T*>(call.qkv);
  const auto* d_context = static_cast<const T*>(call.d_context);
  auto* d_qkv = static_cast<T*>(call.d_qkv);
  // Phase 1: D, which both kernels after it read. One stream puts them in order.
  constexpr std::int64_t kRowsOfBlock = kThreads / 32;
  row_sums_kernel<T>
      <<<static_cast<unsigned>((shape.rows() + kRowsOfBlock - 1) / kRowsOfBlock), kThreads, 0,
         stream>>>(z, shape.rows(), static_cast<const T*>(call.context), d_context, call.row_sums);
  CUDA_CHECK(cudaGetLastError());
  // Phase 2: dq, a block for each tile of queries.
  query_kernel<T><<<grid_of(shape, shape.heads), kThreads, shared_bytes(shape, 4, 1, 0), stream>>>(
      z, qkv, d_context, call.statistics, call.row_sums, d_qkv);
  CUDA_CHECK(cudaGetLastError());
  // Phase 3: dk and dv, a block for each tile of keys, over heads of keys: fewer with grouped
  // queries.
  key_value_kernel<T>
      <<<grid_of(shape, shape.kv_heads), kThreads, shared_bytes(shape, 4, 2, 2), stream>>>(
          z, qkv, d_context, call.statistics, call.row_sums, d_qkv);
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace

bool flash_suits(const AttentionShape& shape) {
  constexpr std::int64_t kMostBlocks = 65535;  // of a grid's second and third dimension
  return shape.dtype != Dtype::fp16 && shape.d >= 1 && shape.d <= kMostWidth &&
         shape.heads <= kMostBlocks && shape.batch <= kMostBlocks && shape.s < (1 << 30) &&
         shape.window < (1 << 30) && shape.heads % shape.kv_heads == 0;
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
