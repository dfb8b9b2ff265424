// The first stage has a thread for L columns of a part of the rows, in ascending order. The second
// has eight threads a column, each a slice of the partial sums in ascending order, and then the
// eight in ascending order: the chain of additions that nothing can overlap is an eighth as long.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/kernels/device.cuh"
#include "exec/cuda/kernels/sums.hpp"

namespace weir::cuda {
namespace {

constexpr int kColumnThreads = 64;
constexpr int kSlices = 8;

template <class E, int L>
__global__ void column_partials_kernel(const E* x, Rows size, float* partials) {
  const std::int64_t j = thread_index() * L;
  if (j >= size.width) return;
  // Parts are of fixed size, whatever the device: so are the order of additions and the bits. A
  // grid has room for so many in y: its blocks take the others in turn.
  for (std::int64_t part = blockIdx.y; part * kRowsPerPartial < size.rows; part += gridDim.y) {
    const std::int64_t first = part * kRowsPerPartial;
    const std::int64_t last = min(first + kRowsPerPartial, size.rows);
    float sum[L] = {};
    for (std::int64_t row = first; row < last; ++row) {
      float value[L];
      load<L>(x + row * size.width + j, value);
      for (int i = 0; i < L; ++i) sum[i] += value[i];
    }
    store<L>(partials + part * size.width + j, sum);
  }
}

// Block: kWarp columns x kSlices; blockIdx.y: the vector.
__global__ void sum_partials_kernel(const float* partials, Rows size, Beta beta,
                                    const __grid_constant__ Vectors y) {
  __shared__ float slices[kSlices][kWarp];
  const std::int64_t j = std::int64_t{blockIdx.x} * kWarp + threadIdx.x;
  const std::int64_t each = (size.rows + kSlices - 1) / kSlices;
  const std::int64_t first = threadIdx.y * each, last = min(first + each, size.rows);
  // Phase 1: each slice's partial sums.
  float sum = 0;
  if (j < size.width) {
    const float* own = partials + blockIdx.y * size.rows * size.width + j;
    for (std::int64_t row = first; row < last; ++row) sum += own[row * size.width];
  }
  // Phase 2: the slices of a column, in ascending order, by the column's first thread.
  slices[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || j >= size.width) return;
  for (int slice = 1; slice < kSlices; ++slice) sum += slices[slice][threadIdx.x];
  // Beta one adds to what earlier micro-batches left.
  float* to = y.of[blockIdx.y] + j;
  *to = beta == Beta::one ? *to + sum : sum;
}

__global__ void accumulate_kernel(const __grid_constant__ Additions additions, Beta beta) {
  const Additions::One& one = additions.of[blockIdx.y];
  const std::int64_t j = thread_index();
  if (j >= one.n) return;
  one.to[j] = beta == Beta::one ? one.to[j] + one.from[j] : one.from[j];
}

}  // namespace

template <class E>
void column_sum(const E* x, Rows size, Beta beta, float* partials, float* y, cudaStream_t stream) {
  const std::int64_t parts = partials_of(size.rows);
  with_lanes<E>(takes_vectors<E>(size.width, x, partials), [&](auto lanes) {
    constexpr int L = lanes;
    const dim3 grid(blocks_for(size.width, kColumnThreads * L),
                    static_cast<unsigned>(parts < kMostInY ? parts : kMostInY));
    column_partials_kernel<E, L><<<grid, kColumnThreads, 0, stream>>>(x, size, partials);
  });
  check_launch("column_sum");
  sum_partials(partials, {parts, size.width}, beta, {{y}, 1}, stream);
}
template void column_sum(const float*, Rows, Beta, float*, float*, cudaStream_t);
template void column_sum(const Bf16*, Rows, Beta, float*, float*, cudaStream_t);

void sum_partials(const float* partials, Rows size, Beta beta, const Vectors& y,
                  cudaStream_t stream) {
  const dim3 grid(blocks_for(size.width, kWarp), static_cast<unsigned>(y.count));
  sum_partials_kernel<<<grid, dim3(kWarp, kSlices), 0, stream>>>(partials, size, beta, y);
  check_launch("sum_partials");
}

void accumulate(const Additions& additions, Beta beta, cudaStream_t stream) {
  std::int64_t longest = 0;
  for (int i = 0; i < additions.count; ++i) {
    if (additions.of[i].n > longest) longest = additions.of[i].n;
  }
  const dim3 grid(blocks_for(longest), static_cast<unsigned>(additions.count));
  accumulate_kernel<<<grid, kThreads, 0, stream>>>(additions, beta);
  check_launch("accumulate");
}

}  // namespace weir::cuda
