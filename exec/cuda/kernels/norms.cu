// One block a row. A thread takes the same elements in every walk over the row, so what it wrote it
// may read again. Gradients of rows that a warp holds in its registers
// (`layer_norm_gradient_kernel`) take one walk for everything.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/kernels/norm_rows.cuh"
#include "exec/cuda/kernels/norms.hpp"

namespace weir::cuda {
namespace {

constexpr int kColumnThreads = 64;
constexpr int kWarps = kThreads / kWarp;
constexpr int kStep = 8;  // a lane holds a multiple of so many elements of a row,
// and no more: with their sums they fill its registers, and with a mask's random numbers too soon.
template <class E, bool kDrops>
constexpr int kMostHeld = kDrops && sizeof(E) == 4 ? 24 : 32;

// Blocks that a multiprocessor is to hold where a lane holds N elements: two, one of which reads
// while the other computes, if nothing then goes to local memory.
template <class E, int N, bool kDrops>
constexpr int kBlocksAtOnce = sizeof(E) == 2 && N + (kDrops ? kStep : 0) <= 3 * kStep ? 2 : 1;

template <class E, int L, Before kBefore>
__global__ void layer_norm_kernel(const E* residual, StepMask given, E* x, Norm<E> norm,
                                  std::int64_t width) {
  const std::int64_t row = blockIdx.x, begin = row * width;
  const std::int64_t start = std::int64_t{threadIdx.x} * L, stride = std::int64_t{blockDim.x} * L;
  // Phase 1: the mean; a residual is added, and stored, on the way.
  float sum = 0;
  for (std::int64_t j = start; j < width; j += stride) {
    float value[L];
    load_row<E, L, kBefore>(residual, given, x, begin + j, value);
    for (int i = 0; i < L; ++i) sum += value[i];
  }
  const float mean = block_reduce(sum, Sum{}) / static_cast<float>(width);
  // Phase 2: the variance about that mean. Two walks: E[x^2] - mean^2 would cancel in fp32.
  float squares = 0;
  for (std::int64_t j = start; j < width; j += stride) {
    float value[L];
    load<L>(x + begin + j, value);
    for (int i = 0; i < L; ++i) squares += (value[i] - mean) * (value[i] - mean);
  }
  const float rstd =
      rsqrtf(block_reduce(squares, Sum{}) / static_cast<float>(width) + norm.epsilon);
  // Phase 3: the normed row.
  for (std::int64_t j = start; j < width; j += stride) {
    float value[L], weight[L], bias[L];
    load<L>(x + begin + j, value);
    load<L>(norm.weight + j, weight);
    load<L>(norm.bias + j, bias);
    for (int i = 0; i < L; ++i) value[i] = (value[i] - mean) * rstd * weight[i] + bias[i];
    store<L>(norm.y + begin + j, value);
  }
  // For the backward, which so needs no sums of x.
  if (threadIdx.x == 0) {
    norm.statistics[2 * row] = mean;
    norm.statistics[2 * row + 1] = rstd;
  }
}

// n = (x - mean) / deviation, d = dy * weight: dx = (d - mean(d) - n * mean(d * n)) / deviation +
// residual.
template <class E, int L, bool kDrops>
__global__ void layer_norm_input_kernel(NormGradient<E> g, std::int64_t width) {
  const std::int64_t row = blockIdx.x, begin = row * width;
  const std::int64_t start = std::int64_t{threadIdx.x} * L, stride = std::int64_t{blockDim.x} * L;
  const float mean = g.statistics[2 * row], rstd = g.statistics[2 * row + 1];
  // Phase 1: the two sums of the row that every dx needs.
  float sum = 0, product = 0;
  for (std::int64_t j = start; j < width; j += stride) {
    float x[L], weight[L], dy[L];
    load<L>(g.x + begin + j, x);
    load<L>(g.weight + j, weight);
    load<L>(g.dy + begin + j, dy);
    for (int i = 0; i < L; ++i) {
      const float d = dy[i] * weight[i];
      sum += d;
      product += d * ((x[i] - mean) * rstd);
    }
  }
  sum = block_reduce(sum, Sum{}) / static_cast<float>(width);
  product = block_reduce(product, Sum{}) / static_cast<float>(width);
  // Phase 2: dx, and the residual's gradient added to it while it is at hand.
  for (std::int64_t j = start; j < width; j += stride) {
    float x[L], weight[L], dx[L];
    load<L>(g.x + begin + j, x);
    load<L>(g.weight + j, weight);
    load<L>(g.dy + begin + j, dx);
    for (int i = 0; i < L; ++i) {
      dx[i] = rstd * (dx[i] * weight[i] - sum - (x[i] - mean) * rstd * product);
    }
    if (g.residual != nullptr) {
      float residual[L];
      load<L>(g.residual + begin + j, residual);
      for (int i = 0; i < L; ++i) dx[i] += residual[i];
    }
    store<L>(g.dx + begin + j, dx);
    if constexpr (kDrops) store_dropped<E, L>(g.mask, begin + j, dx, g.dropped);
  }
}

// A thread: L columns; blockIdx.y: kRowsPerPartial rows. First all partial sums for the weight,
// then those for the bias.
template <class E, int L>
__global__ void layer_norm_weight_kernel(NormGradient<E> g, Rows size) {
  const std::int64_t j = thread_index() * L;
  // Whole threads may leave: this kernel has no barrier.
  if (j >= size.width) return;
  const std::int64_t first = std::int64_t{blockIdx.y} * kRowsPerPartial;
  const std::int64_t last = min(first + kRowsPerPartial, size.rows);
  float weight[L] = {}, bias[L] = {};
  for (std::int64_t row = first; row < last; ++row) {
    const float mean = g.statistics[2 * row], rstd = g.statistics[2 * row + 1];
    float x[L], dy[L];
    load<L>(g.x + row * size.width + j, x);
    load<L>(g.dy + row * size.width + j, dy);
    for (int i = 0; i < L; ++i) {
      weight[i] += dy[i] * ((x[i] - mean) * rstd);
      bias[i] += dy[i];
    }
  }
  store<L>(g.partials + blockIdx.y * size.width + j, weight);
  store<L>(g.partials + (std::int64_t{gridDim.y} + blockIdx.y) * size.width + j, bias);
}

// Both at once for kRowsPerPartial rows a block: a warp takes every kWarps-th of them, N elements a
// lane as vectors that lie kWarp vectors apart. It holds them as they were read, since what is
// computed of them fits the registers of half as many warps. The warps' sums for weight and bias
// are then added in ascending order.
template <class E, int N, bool kDrops>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce<E, N, kDrops>)
    layer_norm_gradient_kernel(NormGradient<E> g, Rows size) {
  constexpr int L = kLanes<E>, kApart = L * kWarp;
  __shared__ float weight_sums[N * kWarp];
  __shared__ float shift_sums[N * kWarp];
  const int warp = static_cast<int>(threadIdx.x) / kWarp,
            lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t first = std::int64_t{blockIdx.x} * kRowsPerPartial;
  const std::int64_t last = min(first + kRowsPerPartial, size.rows);
  const auto width = static_cast<int>(size.width);
  // Phase 1: a row a warp. What the next walks need of it is read once, into registers.
  float weight_sum[N] = {}, bias_sum[N] = {};
  for (std::int64_t row = first + warp; row < last; row += kWarps) {
    const std::int64_t begin = row * width;
    const float mean = g.statistics[2 * row], rstd = g.statistics[2 * row + 1];
    uint4 xs[N / L], dys[N / L], residuals[N / L];
#pragma unroll
    for (int v = 0; v < N / L; ++v) {
      const int j = v * kApart + lane * L;
      // Beyond the width all is zero, and so adds nothing to any sum.
      xs[v] = dys[v] = residuals[v] = uint4{};
      if (j >= width) continue;
      xs[v] = *reinterpret_cast<const uint4*>(g.x + begin + j);
      dys[v] = *reinterpret_cast<const uint4*>(g.dy + begin + j);
      if (g.residual != nullptr)
        residuals[v] = *reinterpret_cast<const uint4*>(g.residual + begin + j);
    }
    // Phase 2: the row's two sums, and this row's part of the weight's and bias's gradients.
    float sum = 0, product = 0;
#pragma unroll
    for (int v = 0; v < N / L; ++v) {
      const int j = v * kApart + lane * L;
      float x[L], dy[L], weight[L] = {};
      unpack(xs[v], x);
      unpack(dys[v], dy);
      if (j < width) load<L>(g.weight + j, weight);
      for (int i = 0; i < L; ++i) {
        const float n = (x[i] - mean) * rstd, d = dy[i] * weight[i];
        weight_sum[v * L + i] += dy[i] * n;
        bias_sum[v * L + i] += dy[i];
        sum += d;
        product += d * n;
      }
    }
    // A warp holds the whole row: no barrier of the block, so warps go on at their own pace.
    sum = warp_reduce(sum, Sum{}) / static_cast<float>(width);
    product = warp_reduce(product, Sum{}) / static_cast<float>(width);
#pragma unroll
    // Phase 3: dx from the same registers.
    for (int v = 0; v < N / L; ++v) {
      const int j = v * kApart + lane * L;
      if (j >= width) continue;
      float x[L], dy[L], residual[L], weight[L], dx[L];
      unpack(xs[v], x);
      unpack(dys[v], dy);
      unpack(residuals[v], residual);
      load<L>(g.weight + j, weight);
      for (int i = 0; i < L; ++i) {
        const float n = (x[i] - mean) * rstd;
        dx[i] = rstd * (dy[i] * weight[i] - sum - n * product) + residual[i];
      }
      store<L>(g.dx + begin + j, dx);
      if constexpr (kDrops) store_dropped<E, L>(g.mask, begin + j, dx, g.dropped);
    }
  }
  // Phase 4: the warps' sums one after the other, so that their order never changes.
  for (int w = 0; w < kWarps; ++w) {
    if (w == warp) {
#pragma unroll
      for (int e = 0; e < N; ++e) {
        const int j = e / L * kApart + lane * L + e % L;
        weight_sums[j] = w == 0 ? weight_sum[e] : weight_sums[j] + weight_sum[e];
        shift_sums[j] = w == 0 ? bias_sum[e] : shift_sums[j] + bias_sum[e];
      }
    }
    __syncthreads();
  }
  // Phase 5: one partial sum a block; sum_partials adds those of all blocks in order.
  for (int j = static_cast<int>(threadIdx.x); j < width; j += kThreads) {
    g.partials[std::int64_t{blockIdx.x} * width + j] = weight_sums[j];
    g.partials[(std::int64_t{gridDim.x} + blockIdx.x) * width + j] = shift_sums[j];
  }
}

// launch(N) with N a constant: the elements of a row that each lane of a warp holds.
template <int kMost, class Launch>
void with_elements_held(std::int64_t width, Launch launch) {
  // As few registers as hold the row: each size of N is a kernel of its own.
  switch ((width + kStep * kWarp - 1) / (kStep * kWarp)) {
    case 1:
      return launch(std::integral_constant<int, kStep>{});
    case 2:
      return launch(std::integral_constant<int, 2 * kStep>{});
    case 3:
      return launch(std::integral_constant<int, 3 * kStep>{});
    default:
      return launch(std::integral_constant<int, kMost>{});
  }
}

// Null residual: x is only read.
template <class E>
void run_layer_norm(const E* residual, const StepMask& mask, E* x, const Norm<E>& norm, Rows size,
                    cudaStream_t stream) {
  const bool vectors = takes_vectors<E>(size.width, residual, x, norm.weight, norm.bias, norm.y);
  norm_each_row<E>(vectors, residual, mask, [&](auto lanes, auto before) {
    constexpr int L = lanes;
    constexpr Before kBefore = before;
    layer_norm_kernel<E, L, kBefore>
        <<<static_cast<unsigned>(size.rows), threads_for_row(size.width, L), 0, stream>>>(
            residual, mask, x, norm, size.width);
  });
  check_launch("layer_norm");
}

template <class E, bool kDrops>
void run_layer_norm_gradient(const NormGradient<E>& g, Rows size, cudaStream_t stream) {
  const std::int64_t parts = partials_of(size.rows);
  const bool vectors =
      takes_vectors<E>(size.width, g.x, g.weight, g.dy, g.dx, g.residual, g.dropped, g.partials);
  constexpr int kMost = kMostHeld<E, kDrops>;
  // The kernel of one walk needs whole vectors and a row that a warp's registers hold.
  if (vectors && size.width <= kMost * kWarp) {
    with_elements_held<kMost>(size.width, [&](auto held) {
      constexpr int N = held;
      layer_norm_gradient_kernel<E, N, kDrops>
          <<<static_cast<unsigned>(parts), kThreads, 0, stream>>>(g, size);
    });
  } else {
    // Two kernels: sums over rows want a thread a column, those over columns a block a row.
    with_lanes<E>(vectors, [&](auto lanes) {
      constexpr int L = lanes;
      const dim3 columns(blocks_for(size.width, kColumnThreads * L), static_cast<unsigned>(parts));
      layer_norm_weight_kernel<E, L><<<columns, kColumnThreads, 0, stream>>>(g, size);
      layer_norm_input_kernel<E, L, kDrops>
          <<<static_cast<unsigned>(size.rows), threads_for_row(size.width, L), 0, stream>>>(
              g, size.width);
    });
  }
}

}  // namespace

template <class E>
void layer_norm(const E* x, const Norm<E>& norm, Rows size, cudaStream_t stream) {
  run_layer_norm<E>(nullptr, {}, const_cast<E*>(x), norm, size, stream);
}
template void layer_norm(const float*, const Norm<float>&, Rows, cudaStream_t);
template void layer_norm(const Bf16*, const Norm<Bf16>&, Rows, cudaStream_t);

template <class E>
void residual_layer_norm(const E* residual, const StepMask& mask, E* x, const Norm<E>& norm,
                         Rows size, cudaStream_t stream) {
  run_layer_norm<E>(residual, mask, x, norm, size, stream);
}
template void residual_layer_norm(const float*, const StepMask&, float*, const Norm<float>&, Rows,
                                  cudaStream_t);
template void residual_layer_norm(const Bf16*, const StepMask&, Bf16*, const Norm<Bf16>&, Rows,
                                  cudaStream_t);

template <class E>
void layer_norm_gradient(const NormGradient<E>& g, Rows size, cudaStream_t stream) {
  with_drops(g.dropped != nullptr, [&](auto drops) {
    constexpr bool kDrops = drops;
    run_layer_norm_gradient<E, kDrops>(g, size, stream);
  });
  check_launch("layer_norm_gradient");
  sum_partials(g.partials, {partials_of(size.rows), size.width}, Beta::zero,
               {{g.weight_gradient, g.bias_gradient}, 2}, stream);
}
template void layer_norm_gradient(const NormGradient<float>&, Rows, cudaStream_t);
template void layer_norm_gradient(const NormGradient<Bf16>&, Rows, cudaStream_t);

}  // namespace weir::cuda
