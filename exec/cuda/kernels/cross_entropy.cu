// One block a row. The way there keeps the largest logit so far and the sum of
// exp(logit - largest). A row that shared memory can hold is read once and written once, while the
// multiprocessor is at another row too; a longer one is read again on the way back, for the most
// part from the second-level cache.
// SPDX-License-Identifier: Apache-2.0
#include <cfloat>

#include "exec/cuda/driver/cuda_check.hpp"
#include "exec/cuda/kernels/cross_entropy.hpp"
#include "exec/cuda/kernels/device.cuh"

namespace weir::cuda {
namespace {

constexpr int kMostThreads = 1024;
// Shared memory that every device from 8.0 on gives a block that asks for it (CUDA C++ Programming
// Guide, table of technical specifications: 99 KB): in bf16 rows of up to 50,688 logits.
constexpr int kMostHeld = 99 * 1024;
// Two such rows are what a multiprocessor of 9.0 holds: one is read or written while the other's
// powers are taken. Each thread then has 64 registers.
constexpr int kHoldingThreads = 512, kRowsAtOnce = 2;
constexpr int kInFlight = 4;  // vectors of 16 bytes that a thread reads before it looks at one

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
  // Phase 1: within a warp. Each halving takes in the lane that lies `apart` further up.
  for (int apart = kWarp / 2; apart > 0; apart /= 2) {
    Softened other;
    other.largest = __shfl_down_sync(kWholeWarp, own.largest, apart);
    other.sum = __shfl_down_sync(kWholeWarp, own.sum, apart);
    own.take(other);
  }
  // Phase 2: over warps, through shared memory.
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = own;
  __syncthreads();
  // Every thread adds them all itself: the order is then the same for each, and no second barrier
  // is needed.
  Softened total = warps[0];
  for (unsigned warp = 1; warp < blockDim.x / kWarp; ++warp) total.take(warps[warp]);
  return total;
}

// -log softmax[target]; of a row without a target 0.
template <class E>
__device__ double loss_of(const Softened& all, const E* x, std::int64_t target) {
  if (target < 0) return 0;
  // In double: losses of all rows are summed, and near zero the three terms cancel.
  return log(static_cast<double>(all.sum)) + all.largest - static_cast<float>(x[target]);
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

// The same for a row that begins on 16 bytes, as the next one does, and is held in shared memory:
// every thread reads there what itself wrote. The logits of the last vector that are none are
// neither counted nor written.
template <class E>
__global__ void __launch_bounds__(kHoldingThreads, kRowsAtOnce)
    held_cross_entropy_kernel(Logits<E> logits, Targets targets, float scale, double* row_losses) {
  extern __shared__ uint4 held[];
  constexpr int L = kLanes<E>;
  const std::int64_t row = blockIdx.x;
  const auto target = target_of(targets, row);
  const auto vocabulary = static_cast<int>(logits.vocabulary);
  const int vectors = (vocabulary + L - 1) / L;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  E* x = logits.values + row * logits.row;
  Softened own;
  // Phase 1: read the row, keep it in shared memory, and soften on the way.
  for (int first = thread; first < vectors; first += kInFlight * threads) {
    uint4 read[kInFlight];
#pragma unroll
    for (int n = 0; n < kInFlight; ++n) {
      const int v = first + n * threads;
      if (v < vectors) read[n] = *reinterpret_cast<const uint4*>(x + v * L);
    }
#pragma unroll
    for (int n = 0; n < kInFlight; ++n) {
      const int v = first + n * threads;
      if (v >= vectors) continue;
      held[v] = read[n];
      float value[L];
      unpack(read[n], value);
      if ((v + 1) * L > vocabulary) {
        // exp(-FLT_MAX - largest) is 0: what fills the last vector adds nothing to the sum.
        for (int i = 0; i < L; ++i) value[i] = v * L + i < vocabulary ? value[i] : -FLT_MAX;
      }
      own.take(value);
    }
  }
  // Phase 2: the block's maximum and sum, and from them this row's loss, log(sum) + largest -
  // x[target].
  const Softened all = block_soften(own);
  if (thread == 0) row_losses[row] = loss_of(all, x, target);
  __syncthreads();  // the target's logit is read before it is overwritten
  // Phase 3: the gradient, (softmax - one-hot) scale, in place of the logits.
  const float factor = target < 0 ? 0.0F : scale / all.sum;  // without a target all zeros
  for (int v = thread; v < vectors; v += threads) {
    float value[L];
    unpack(held[v], value);
    for (int i = 0; i < L; ++i) {
      value[i] = expf(value[i] - all.largest) * factor - (v * L + i == target ? scale : 0.0F);
    }
    if ((v + 1) * L <= vocabulary) {
      store<L>(x + v * L, value);
    } else {
      // The logits behind the vocabulary belong to nobody: they are left as they are.
      for (int i = 0; i < L && v * L + i < vocabulary; ++i) x[v * L + i] = static_cast<E>(value[i]);
    }
  }
}

template <class E, int L>
__global__ void __launch_bounds__(kMostThreads)
    cross_entropy_kernel(Logits<E> logits, Targets targets, float scale, double* row_losses) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t target = target_of(targets, row);
  E* x = logits.values + row * logits.row;
  const std::int64_t whole = logits.vocabulary / L * L;  // taken L at a time, the rest one by one
  const std::int64_t start = std::int64_t{threadIdx.x} * L, stride = std::int64_t{blockDim.x} * L;
  // Phase 1: the row's maximum and sum in one walk.
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
  // Phase 2: the same bits in every thread, so that the whole row is scaled by one factor.
  const Softened all = block_soften(own);
  if (threadIdx.x == 0) row_losses[row] = loss_of(all, x, target);
  __syncthreads();  // the target's logit is read before it is overwritten
  // Phase 3: walk again, now writing gradients. Each thread meets the elements that it read itself.
  const float factor = target < 0 ? 0.0F : scale / all.sum;  // without a target all zeros
  for (std::int64_t j = start; j < whole; j += stride)
    gradient_of<E, L>(x, j, target, all.largest, factor, scale);
  for (std::int64_t j = whole + threadIdx.x; j < logits.vocabulary; j += blockDim.x) {
    gradient_of<E, 1>(x, j, target, all.largest, factor, scale);
  }
}

// visit(column, L of them) over the columns of a block's row: L at a time while whole vectors last,
// then one by one.
template <int L, class Visit>
__device__ void walk_row(std::int64_t columns, Visit visit) {
  const std::int64_t whole = columns / L * L;
  const std::int64_t stride = std::int64_t{blockDim.x} * L;
  for (std::int64_t j = std::int64_t{threadIdx.x} * L; j < whole; j += stride)
    visit(j, std::integral_constant<int, L>{});
  for (std::int64_t j = whole + threadIdx.x; j < columns; j += blockDim.x)
    visit(j, std::integral_constant<int, 1>{});
}

template <class E, int L>
__global__ void __launch_bounds__(kMostThreads)
    largest_logits_kernel(DividedLogits<E> of, float* largest) {
  const E* x = of.logits.values + std::int64_t{blockIdx.x} * of.logits.row;
  float top = -FLT_MAX;
  walk_row<L>(of.logits.vocabulary, [&](std::int64_t j, auto lanes) {
    constexpr int N = decltype(lanes)::value;
    float value[N];
    load<N>(x + j, value);
    for (int k = 0; k < N; ++k) top = fmaxf(top, value[k]);
  });
  top = block_reduce(top, Max{});
  if (threadIdx.x == 0) largest[blockIdx.x] = top;
}

template <class E, int L>
__global__ void __launch_bounds__(kMostThreads)
    sum_powers_kernel(DividedLogits<E> of, Targets targets, RowNumbers numbers) {
  const std::int64_t row = blockIdx.x;
  const E* x = of.logits.values + row * of.logits.row;
  const float largest = numbers.largest[row];
  float sum = 0;
  walk_row<L>(of.logits.vocabulary, [&](std::int64_t j, auto lanes) {
    constexpr int N = decltype(lanes)::value;
    float value[N];
    load<N>(x + j, value);
    for (int k = 0; k < N; ++k) sum += expf(value[k] - largest);
  });
  sum = block_reduce(sum, Sum{});
  if (threadIdx.x != 0) return;
  numbers.powers[row] = sum;
  const std::int64_t target = target_of(targets, row) - of.first;
  const bool here = target >= 0 && target < of.logits.vocabulary;
  numbers.at_target[row] = here ? static_cast<float>(x[target]) - largest : 0.0F;
}

template <class E, int L>
__global__ void __launch_bounds__(kMostThreads)
    divided_cross_entropy_kernel(DividedLogits<E> of, Targets targets, float scale,
                                 RowNumbers numbers, double* row_losses) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t known = target_of(targets, row), target = known - of.first;
  const bool has_target = known >= 0;
  E* x = of.logits.values + row * of.logits.row;
  const float largest = numbers.largest[row];
  const float factor = has_target ? scale / numbers.powers[row] : 0.0F;
  // The largest cancels.
  if (threadIdx.x == 0) {
    const double loss = log(static_cast<double>(numbers.powers[row])) - numbers.at_target[row];
    row_losses[row] = has_target ? loss : 0;
  }
  walk_row<L>(of.logits.vocabulary, [&](std::int64_t j, auto lanes) {
    gradient_of<E, decltype(lanes)::value>(x, j, target, largest, factor, scale);
  });
  for (std::int64_t j = of.logits.vocabulary + threadIdx.x; j < of.rows; j += blockDim.x)
    x[j] = static_cast<E>(0.0F);
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

// Asks for so much shared memory a block, and whether the device gives it: those before 8.0 may
// not.
bool gives_shared(const void* kernel, int bytes) {
  const cudaError_t status =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (status == cudaErrorInvalidValue) {
    static_cast<void>(cudaGetLastError());
    return false;
  }
  check_cuda(status, "cudaFuncSetAttribute", __FILE__, __LINE__);
  return true;
}

}  // namespace

template <class E>
void cross_entropy(const Logits<E>& logits, Targets targets, float scale, double* row_losses,
                   double* loss, cudaStream_t stream) {
  const std::int64_t rows = targets.rows;
  const bool vectors = takes_vectors<E>(logits.row, logits.values);
  const std::int64_t held =
      (logits.vocabulary + kLanes<E> - 1) / kLanes<E> * std::int64_t{sizeof(uint4)};
  const auto* holding = reinterpret_cast<const void*>(held_cross_entropy_kernel<E>);
  // A row that fits shared memory takes the kernel that reads it once. The driver must grant that
  // much.
  if (vectors && held <= kMostHeld && gives_shared(holding, kMostHeld)) {
    const unsigned threads = threads_for_row(logits.vocabulary, kLanes<E>, kHoldingThreads);
    held_cross_entropy_kernel<E>
        <<<static_cast<unsigned>(rows), threads, static_cast<std::size_t>(held), stream>>>(
            logits, targets, scale, row_losses);
    check_launch("cross_entropy");
    return sum_losses(row_losses, rows, scale, loss, stream);
  }
  with_lanes<E>(vectors, [&](auto lanes) {
    constexpr int L = lanes;
    const unsigned threads = threads_for_row(logits.vocabulary, L, kMostThreads);
    cross_entropy_kernel<E, L>
        <<<static_cast<unsigned>(rows), threads, 0, stream>>>(logits, targets, scale, row_losses);
  });
  check_launch("cross_entropy");
  sum_losses(row_losses, rows, scale, loss, stream);
}
template void cross_entropy(const Logits<float>&, Targets, float, double*, double*, cudaStream_t);
template void cross_entropy(const Logits<Bf16>&, Targets, float, double*, double*, cudaStream_t);

namespace {

// launch(blocks, threads, L): a block a row.
template <class E, class Launch>
void for_rows(const DividedLogits<E>& of, const Targets& targets, const char* name, Launch launch) {
  const auto rows = static_cast<unsigned>(targets.rows);
  with_lanes<E>(takes_vectors<E>(of.logits.row, of.logits.values), [&](auto lanes) {
    launch(rows, threads_for_row(of.rows, lanes, kMostThreads), lanes);
  });
  check_launch(name);
}

}  // namespace

template <class E>
void largest_logits(const DividedLogits<E>& of, Targets targets, const RowNumbers& numbers,
                    cudaStream_t stream) {
  for_rows(of, targets, "largest_logits", [&](unsigned rows, unsigned threads, auto lanes) {
    constexpr int L = lanes;
    largest_logits_kernel<E, L><<<rows, threads, 0, stream>>>(of, numbers.largest);
  });
}
template void largest_logits(const DividedLogits<float>&, Targets, const RowNumbers&, cudaStream_t);
template void largest_logits(const DividedLogits<Bf16>&, Targets, const RowNumbers&, cudaStream_t);

template <class E>
void sum_powers(const DividedLogits<E>& of, Targets targets, const RowNumbers& numbers,
                cudaStream_t stream) {
  for_rows(of, targets, "sum_powers", [&](unsigned rows, unsigned threads, auto lanes) {
    constexpr int L = lanes;
    sum_powers_kernel<E, L><<<rows, threads, 0, stream>>>(of, targets, numbers);
  });
}
template void sum_powers(const DividedLogits<float>&, Targets, const RowNumbers&, cudaStream_t);
template void sum_powers(const DividedLogits<Bf16>&, Targets, const RowNumbers&, cudaStream_t);

template <class E>
void divided_cross_entropy(const DividedLogits<E>& of, Targets targets, float scale,
                           const RowNumbers& numbers, double* row_losses, double* loss,
                           cudaStream_t stream) {
  for_rows(of, targets, "divided_cross_entropy", [&](unsigned rows, unsigned threads, auto lanes) {
    constexpr int L = lanes;
    divided_cross_entropy_kernel<E, L>
        <<<rows, threads, 0, stream>>>(of, targets, scale, numbers, row_losses);
  });
  sum_losses(row_losses, targets.rows, scale, loss, stream);
}
template void divided_cross_entropy(const DividedLogits<float>&, Targets, float, const RowNumbers&,
                                    double*, double*, cudaStream_t);
template void divided_cross_entropy(const DividedLogits<Bf16>&, Targets, float, const RowNumbers&,
                                    double*, double*, cudaStream_t);

}  // namespace weir::cuda
