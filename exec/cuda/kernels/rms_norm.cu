// Forward one block a row. Backward a block takes kRowsPerPartial rows one after the other, and a
// thread the same columns of each, so that it sums their part of the weight's gradient beside: one
// walk for everything, where the threads of a block hold a row (`rms_norm_gradient_kernel`), else
// two.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/kernels/norm_rows.cuh"
#include "exec/cuda/kernels/norms.hpp"

namespace weir::cuda {
namespace {

constexpr int kMostThreads = 512;  // of a block that holds a row
constexpr int kFewElements = 8;    // that a thread holds of rows which so many threads hold
constexpr int kFewThreads = 256;   //
constexpr int kMostElements = 16;  // of wider rows: more fill its registers
constexpr std::int64_t kMostHeldWidth = kMostElements * kMostThreads;

template <class E, int L, Before kBefore>
__global__ void rms_norm_kernel(const E* residual, StepMask given, E* x, Norm<E> norm,
                                std::int64_t width) {
  const std::int64_t row = blockIdx.x, begin = row * width;
  const std::int64_t start = std::int64_t{threadIdx.x} * L, stride = std::int64_t{blockDim.x} * L;
  // Phase 1: the squares; a residual is added, and stored, on the way.
  float squares = 0;
  for (std::int64_t j = start; j < width; j += stride) {
    float value[L];
    load_row<E, L, kBefore>(residual, given, x, begin + j, value);
    for (int i = 0; i < L; ++i) squares += value[i] * value[i];
  }
  const float rstd =
      rsqrtf(block_reduce(squares, Sum{}) / static_cast<float>(width) + norm.epsilon);
  // Phase 2: the normed row.
  for (std::int64_t j = start; j < width; j += stride) {
    float value[L], weight[L];
    load<L>(x + begin + j, value);
    load<L>(norm.weight + j, weight);
    for (int i = 0; i < L; ++i) value[i] = value[i] * rstd * weight[i];
    store<L>(norm.y + begin + j, value);
  }
  if (threadIdx.x == 0) {
    // In layer norm's place of a mean, so that both norms share one layout of statistics.
    norm.statistics[2 * row] = 0;
    norm.statistics[2 * row + 1] = rstd;
  }
}

// What a thread holds of a row: N elements as vectors that lie a block's vectors apart, as they
// were read; zeros behind the row's end.
template <class E, int N>
struct HeldRow {
  static constexpr int L = kLanes<E>, kVectors = N / L;
  uint4 x[kVectors], dy[kVectors], residual[kVectors];

  // Column of a vector of this thread.
  __device__ static int column(int v) { return static_cast<int>(threadIdx.x + v * blockDim.x) * L; }
  __device__ void read(const NormGradient<E>& g, std::int64_t begin, int width) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int j = column(v);
      // Beyond the width all is zero, and so adds nothing to any sum.
      x[v] = dy[v] = residual[v] = uint4{};
      if (j >= width) continue;
      x[v] = *reinterpret_cast<const uint4*>(g.x + begin + j);
      dy[v] = *reinterpret_cast<const uint4*>(g.dy + begin + j);
      if (g.residual != nullptr)
        residual[v] = *reinterpret_cast<const uint4*>(g.residual + begin + j);
    }
  }
  // The thread's part of sum(d * n); dy * n is added to the sums.
  __device__ float product(float rstd, const uint4 (&weights)[kVectors], float (&sums)[N]) const {
    float product = 0;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      float of_x[L], of_dy[L], weight[L];
      unpack(x[v], of_x);
      unpack(dy[v], of_dy);
      unpack(weights[v], weight);
      for (int i = 0; i < L; ++i) {
        const float n = of_x[i] * rstd;
        sums[v * L + i] += of_dy[i] * n;
        product += of_dy[i] * weight[i] * n;
      }
    }
    return product;
  }
};

// n = x / rms, d = dy * weight: dx = (d - n * mean(d * n)) / rms + residual.
template <class E, int N, bool kDrops>
__global__ void __launch_bounds__(kMostThreads)
    rms_norm_gradient_kernel(NormGradient<E> g, Rows size) {
  using Row = HeldRow<E, N>;
  constexpr int L = Row::L;
  const std::int64_t first = std::int64_t{blockIdx.x} * kRowsPerPartial;
  const std::int64_t last = min(first + kRowsPerPartial, size.rows);
  const auto width = static_cast<int>(size.width);
  // Phase 1: the gain is the same for all rows, so it is read once a block.
  uint4 weights[Row::kVectors];
  float sums[N] = {};
#pragma unroll
  for (int v = 0; v < Row::kVectors; ++v) {
    const int j = Row::column(v);
    weights[v] = j < width ? *reinterpret_cast<const uint4*>(g.weight + j) : uint4{};
  }
  // Phase 2: rows one after the other. The thread keeps its columns' sums over all of them.
  for (std::int64_t row = first; row < last; ++row) {
    const std::int64_t begin = row * width;
    const float rstd = g.statistics[2 * row + 1];
    Row held;
    held.read(g, begin, width);
    const float product =
        block_reduce(held.product(rstd, weights, sums), Sum{}) / static_cast<float>(width);
#pragma unroll
    // Phase 3: dx from the same registers.
    for (int v = 0; v < Row::kVectors; ++v) {
      const int j = Row::column(v);
      if (j >= width) continue;
      float x[L], dx[L], weight[L], residual[L];
      unpack(held.x[v], x);
      unpack(held.dy[v], dx);
      unpack(weights[v], weight);
      unpack(held.residual[v], residual);
      for (int i = 0; i < L; ++i)
        dx[i] = rstd * (dx[i] * weight[i] - x[i] * rstd * product) + residual[i];
      store<L>(g.dx + begin + j, dx);
      if constexpr (kDrops) store_dropped<E, L>(g.mask, begin + j, dx, g.dropped);
    }
  }
#pragma unroll
  // Phase 4: one partial sum a block, which sum_partials adds in order.
  for (int v = 0; v < Row::kVectors; ++v) {
    const int j = Row::column(v);
    if (j >= width) continue;
    float sum[L];
    for (int i = 0; i < L; ++i) sum[i] = sums[v * L + i];
    store<L>(g.partials + std::int64_t{blockIdx.x} * width + j, sum);
  }
}

// Rows of any width: a thread reads its columns a second time, and keeps their sums where they are
// to lie.
template <class E, int L, bool kDrops>
__global__ void wide_rms_norm_gradient_kernel(NormGradient<E> g, Rows size) {
  const std::int64_t first = std::int64_t{blockIdx.x} * kRowsPerPartial;
  const std::int64_t last = min(first + kRowsPerPartial, size.rows);
  const std::int64_t start = std::int64_t{threadIdx.x} * L, stride = std::int64_t{blockDim.x} * L;
  float* partials = g.partials + std::int64_t{blockIdx.x} * size.width;
  for (std::int64_t row = first; row < last; ++row) {
    const std::int64_t begin = row * size.width;
    const float rstd = g.statistics[2 * row + 1];
    // Phase 1: the row's sum of d n.
    float product = 0;
    for (std::int64_t j = start; j < size.width; j += stride) {
      float x[L], weight[L], dy[L];
      load<L>(g.x + begin + j, x);
      load<L>(g.weight + j, weight);
      load<L>(g.dy + begin + j, dy);
      for (int i = 0; i < L; ++i) product += dy[i] * weight[i] * (x[i] * rstd);
    }
    product = block_reduce(product, Sum{}) / static_cast<float>(size.width);
    // Phase 2: dx, and this row's part of the gain's sums, which lie in global memory for want of
    // registers.
    for (std::int64_t j = start; j < size.width; j += stride) {
      float x[L], weight[L], dx[L], sum[L] = {};
      load<L>(g.x + begin + j, x);
      load<L>(g.weight + j, weight);
      load<L>(g.dy + begin + j, dx);
      // The first row begins the sums: the buffer holds whatever was there before.
      if (row > first) load<L>(partials + j, sum);
      for (int i = 0; i < L; ++i) {
        sum[i] += dx[i] * (x[i] * rstd);
        dx[i] = rstd * (dx[i] * weight[i] - x[i] * rstd * product);
      }
      store<L>(partials + j, sum);
      if (g.residual != nullptr) {
        float residual[L];
        load<L>(g.residual + begin + j, residual);
        for (int i = 0; i < L; ++i) dx[i] += residual[i];
      }
      store<L>(g.dx + begin + j, dx);
      if constexpr (kDrops) store_dropped<E, L>(g.mask, begin + j, dx, g.dropped);
    }
  }
}

// Null residual: x is only read.
template <class E>
void run_rms_norm(const E* residual, const StepMask& mask, E* x, const Norm<E>& norm, Rows size,
                  cudaStream_t stream) {
  const bool vectors = takes_vectors<E>(size.width, residual, x, norm.weight, norm.y);
  norm_each_row<E>(vectors, residual, mask, [&](auto lanes, auto before) {
    constexpr int L = lanes;
    constexpr Before kBefore = before;
    rms_norm_kernel<E, L, kBefore>
        <<<static_cast<unsigned>(size.rows), threads_for_row(size.width, L), 0, stream>>>(
            residual, mask, x, norm, size.width);
  });
  check_launch("rms_norm");
}

template <class E, bool kDrops>
void run_rms_norm_gradient(const NormGradient<E>& g, Rows size, cudaStream_t stream) {
  const auto parts = static_cast<unsigned>(partials_of(size.rows));
  const bool vectors =
      takes_vectors<E>(size.width, g.x, g.weight, g.dy, g.dx, g.residual, g.dropped, g.partials);
  // Too wide for a block's registers, or not on 16 bytes: two walks.
  if (!vectors || size.width > kMostHeldWidth) {
    with_lanes<E>(vectors, [&](auto lanes) {
      constexpr int L = lanes;
      wide_rms_norm_gradient_kernel<E, L, kDrops>
          <<<parts, threads_for_row(size.width, L), 0, stream>>>(g, size);
    });
  } else if (size.width <= kFewElements * kFewThreads) {
    // Small rows: fewer registers a thread, so that more blocks fit a multiprocessor.
    const unsigned threads = threads_for_row(size.width, kFewElements, kFewThreads);
    rms_norm_gradient_kernel<E, kFewElements, kDrops><<<parts, threads, 0, stream>>>(g, size);
  } else {
    const unsigned threads = threads_for_row(size.width, kMostElements, kMostThreads);
    rms_norm_gradient_kernel<E, kMostElements, kDrops><<<parts, threads, 0, stream>>>(g, size);
  }
}

}  // namespace

template <class E>
void rms_norm(const E* x, const Norm<E>& norm, Rows size, cudaStream_t stream) {
  run_rms_norm<E>(nullptr, {}, const_cast<E*>(x), norm, size, stream);
}
template void rms_norm(const float*, const Norm<float>&, Rows, cudaStream_t);
template void rms_norm(const Bf16*, const Norm<Bf16>&, Rows, cudaStream_t);

template <class E>
void residual_rms_norm(const E* residual, const StepMask& mask, E* x, const Norm<E>& norm,
                       Rows size, cudaStream_t stream) {
  run_rms_norm<E>(residual, mask, x, norm, size, stream);
}
template void residual_rms_norm(const float*, const StepMask&, float*, const Norm<float>&, Rows,
                                cudaStream_t);
template void residual_rms_norm(const Bf16*, const StepMask&, Bf16*, const Norm<Bf16>&, Rows,
                                cudaStream_t);

template <class E>
void rms_norm_gradient(const NormGradient<E>& g, Rows size, cudaStream_t stream) {
  with_drops(g.dropped != nullptr, [&](auto drops) {
    constexpr bool kDrops = drops;
    run_rms_norm_gradient<E, kDrops>(g, size, stream);
  });
  check_launch("rms_norm_gradient");
  sum_partials(g.partials, {partials_of(size.rows), size.width}, Beta::zero,
               {{g.weight_gradient}, 1}, stream);
}
template void rms_norm_gradient(const NormGradient<float>&, Rows, cudaStream_t);
template void rms_norm_gradient(const NormGradient<Bf16>&, Rows, cudaStream_t);

}  // namespace weir::cuda
