// One block a row, of up to 1024 threads. The way there keeps the largest logit so far and the sum
// of exp(logit - largest). A row that its threads can hold in registers is read once and written
// once; a longer one is read again on the way back, for the most part from the second-level cache.
// SPDX-License-Identifier: Apache-2.0
#include <cfloat>

#include "exec/cuda/kernels/cross_entropy.hpp"
#include "exec/cuda/kernels/device.cuh"

namespace weir::cuda {
namespace {

constexpr int kMostThreads = 1024;
// Vectors of 16 bytes that a thread holds at most: 28 of the 64 registers that it has where 1024
// share a multiprocessor. In bf16 so rows of up to 57,344 logits.
constexpr int kMostHeld = 7;

// Of the elements seen: the largest, and the sum of exp(element - largest). Of none: the smallest
// number, and 0.
struct Softened {
  float largest = -FLT_MAX, sum = 0;

  template <int L>
  __device__ void take(const float (&value)[L]) {
    float top = largest;
    for (int i = 0; i < L; ++i) top = fmaxf(top, value[i]);
    sum *= expf(largest - top);
    for (int i = 0; i < L; ++i) sum += expf(value[i] - top);
    largest = top;
  }
  __device__ void take(const Softened& other) {
    const float top = fmaxf(largest, other.largest);
    sum = sum * expf(largest - top) + other.sum * expf(other.largest - top);
    largest = top;
  }
};

// Every thread gets the same bits: lanes by halving (lane 0 has the warp's), then warps in
// ascending order.
__device__ Softened block_soften(Softened own) {
  __shared__ Softened warps[kWarp];
  for (int apart = kWarp / 2; apart > 0; apart /= 2) {
    Softened other;
    other.largest = __shfl_down_sync(kWholeWarp, own.largest, apart);
    other.sum = __shfl_down_sync(kWholeWarp, own.sum, apart);
    own.take(other);
  }
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = own;
  __syncthreads();
  Softened total = warps[0];
  for (unsigned warp = 1; warp < blockDim.x / kWarp; ++warp) total.take(warps[warp]);
  return total;
}

// (softmax - one at the target) * scale, with `factor` = scale / sum of exp.
template <class E, int L>
__device__ void gradient_of(E* x, std::int64_t j, std::int64_t target, float largest, float factor,
                            float scale) {
  float value[L];
  load<L>(x + j, value);
  for (int i = 0; i < L; ++i) {
    value[i] = expf(value[i] - largest) * factor - (j + i == target ? scale : 0.0F);
  }
  store<L>(x + j, value);
}

// The same for a row of up to N * kLanes<E> logits a thread, which begins on 16 bytes as the next
// one does; the logits of the last vector that are none are neither counted nor written.
template <class E, int N>
__global__ void __launch_bounds__(kMostThreads)
    held_cross_entropy_kernel(Logits<E> logits, Tokens tokens, float scale, double* row_losses) {
  constexpr int L = kLanes<E>;
  const std::int64_t row = blockIdx.x;
  const auto target = static_cast<int>(tokens.ids[token_index(tokens, row) + 1]);
  const auto vocabulary = static_cast<int>(logits.vocabulary);
  const int start = static_cast<int>(threadIdx.x) * L, stride = static_cast<int>(blockDim.x) * L;
  E* x = logits.values + row * logits.row;
  uint4 held[N];
  Softened own;
#pragma unroll
  for (int v = 0; v < N; ++v) {
    const int j = start + v * stride;
    if (j >= vocabulary) continue;
    held[v] = *reinterpret_cast<const uint4*>(x + j);
    float value[L];
    unpack(held[v], value);
    for (int i = 0; i < L; ++i) value[i] = j + i < vocabulary ? value[i] : -FLT_MAX;
    own.take(value);
  }
  const Softened all = block_soften(own);
  if (threadIdx.x == 0) {
    row_losses[row] =
        log(static_cast<double>(all.sum)) + all.largest - static_cast<float>(x[target]);
  }
  __syncthreads();  // the target's logit is read before it is overwritten
  const float factor = scale / all.sum;
#pragma unroll
  for (int v = 0; v < N; ++v) {
    const int j = start + v * stride;
    if (j >= vocabulary) continue;
    float value[L];
    unpack(held[v], value);
    for (int i = 0; i < L; ++i) {
      value[i] = expf(value[i] - all.largest) * factor - (j + i == target ? scale : 0.0F);
    }
    if (j + L <= vocabulary) {
      store<L>(x + j, value);
    } else {
      for (int i = 0; i < L && j + i < vocabulary; ++i) x[j + i] = static_cast<E>(value[i]);
    }
  }
}

template <class E, int L>
__global__ void __launch_bounds__(kMostThreads)
    cross_entropy_kernel(Logits<E> logits, Tokens tokens, float scale, double* row_losses) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t target = tokens.ids[token_index(tokens, row) + 1];
  E* x = logits.values + row * logits.row;
  const std::int64_t whole = logits.vocabulary / L * L;  // taken L at a time, the rest one by one
  const std::int64_t start = std::int64_t{threadIdx.x} * L, stride = std::int64_t{blockDim.x} * L;
  Softened own;
  for (std::int64_t j = start; j < whole; j += stride) {
    float value[L];
    load<L>(x + j, value);
    own.take(value);
  }
  for (std::int64_t j = whole + threadIdx.x; j < logits.vocabulary; j += blockDim.x) {
    float value[1];
    load<1>(x + j, value);
    own.take(value);
  }
  const Softened all = block_soften(own);
  if (threadIdx.x == 0) {
    row_losses[row] =
        log(static_cast<double>(all.sum)) + all.largest - static_cast<float>(x[target]);
  }
  __syncthreads();  // the target's logit is read before it is overwritten
  const float factor = scale / all.sum;
  for (std::int64_t j = start; j < whole; j += stride)
    gradient_of<E, L>(x, j, target, all.largest, factor, scale);
  for (std::int64_t j = whole + threadIdx.x; j < logits.vocabulary; j += blockDim.x) {
    gradient_of<E, 1>(x, j, target, all.largest, factor, scale);
  }
}

__global__ void sum_losses_kernel(const double* row_losses, std::int64_t rows, double scale,
                                  double* loss) {
  double sum = 0;
  for (std::int64_t row = threadIdx.x; row < rows; row += kThreads) sum += row_losses[row];
  sum = block_reduce(sum, Sum{});
  if (threadIdx.x == 0) *loss = sum * scale;
}

void sum_losses(const double* row_losses, std::int64_t rows, float scale, double* loss,
                cudaStream_t stream) {
  sum_losses_kernel<<<1, kThreads, 0, stream>>>(row_losses, rows, static_cast<double>(scale), loss);
  check_launch("sum_losses");
}

}  // namespace

template <class E>
void cross_entropy(const Logits<E>& logits, Tokens tokens, float scale, double* row_losses,
                   double* loss, cudaStream_t stream) {
  const std::int64_t rows = tokens.batch * tokens.seq_length;
  const bool vectors = takes_vectors<E>(logits.row, logits.values);
  if (vectors && logits.vocabulary <= std::int64_t{kMostHeld} * kLanes<E> * kMostThreads) {
    const unsigned threads = threads_for_row(logits.vocabulary, kLanes<E>, kMostThreads);
    held_cross_entropy_kernel<E, kMostHeld>
        <<<static_cast<unsigned>(rows), threads, 0, stream>>>(logits, tokens, scale, row_losses);
    check_launch("cross_entropy");
    return sum_losses(row_losses, rows, scale, loss, stream);
  }
  with_lanes<E>(vectors, [&](auto lanes) {
    constexpr int L = lanes;
    const unsigned threads = threads_for_row(logits.vocabulary, L, kMostThreads);
    cross_entropy_kernel<E, L>
        <<<static_cast<unsigned>(rows), threads, 0, stream>>>(logits, tokens, scale, row_losses);
  });
  check_launch("cross_entropy");
  sum_losses(row_losses, rows, scale, loss, stream);
}
template void cross_entropy(const Logits<float>&, Tokens, float, double*, double*, cudaStream_t);
template void cross_entropy(const Logits<Bf16>&, Tokens, float, double*, double*, cudaStream_t);

}  // namespace weir::cuda
