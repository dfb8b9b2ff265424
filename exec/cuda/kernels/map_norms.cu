// A block is columns of threads, each with L channels, and as many rows of them as it has threads
// for: a row of few channels keeps no thread idle. What is the same along a channel a thread reads
// once.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/kernels/device.cuh"
#include "exec/cuda/kernels/map_norms.hpp"

namespace weir::cuda {
namespace {

constexpr int kSlices = 8;        // of a channel's partial sums
constexpr int kRowsOfThread = 8;  // where nothing is summed

// Threads across and down; both are powers of two.
dim3 block_for(std::int64_t width, int lanes) {
  unsigned across = 1;
  while (across < kWarp && across * lanes < width) across *= 2;
  return {across, kThreads / across};
}

// sum[0] += x.
template <class E>
struct Values {
  static constexpr int kSums = 1;
  const E* x;

  template <int L>
  struct Channels {};
  template <int L>
  __device__ Channels<L> channels(std::int64_t, std::int64_t) const {
    return {};
  }
  template <int L>
  __device__ void add(const Channels<L>&, std::int64_t i, float (&sum)[1][L]) const {
    float value[L];
    load<L>(x + i, value);
    for (int k = 0; k < L; ++k) sum[0][k] += value[k];
  }
};

// sum[0] += (x - mean)^2: the squares of what is left, no difference of large numbers.
template <class E>
struct Squared {
  static constexpr int kSums = 1;
  const E* x;
  const float* means;

  template <int L>
  struct Channels {
    float mean[L];
  };
  template <int L>
  __device__ Channels<L> channels(std::int64_t j, std::int64_t) const {
    Channels<L> c;
    load<L>(means + j, c.mean);
    return c;
  }
  template <int L>
  __device__ void add(const Channels<L>& c, std::int64_t i, float (&sum)[1][L]) const {
    float value[L];
    load<L>(x + i, value);
    for (int k = 0; k < L; ++k) {
      const float off = value[k] - c.mean[k];
      sum[0][k] += off * off;
    }
  }
};

// A channel's mean and r.
template <int L>
struct Moments {
  float mean[L], inverse[L];
};
template <int L>
__device__ Moments<L> moments_of(const float* moments, std::int64_t j, std::int64_t width,
                                 float epsilon) {
  Moments<L> m;
  load<L>(moments + j, m.mean);
  load<L>(moments + width + j, m.inverse);
  for (int k = 0; k < L; ++k) m.inverse[k] = 1.0F / sqrtf(m.inverse[k] + epsilon);
  return m;
}

// sum[0] += dy z, sum[1] += dy.
template <class E>
struct Gradient {
  static constexpr int kSums = 2;
  BatchNormGradient<E> norm;

  template <int L>
  using Channels = Moments<L>;
  template <int L>
  __device__ Channels<L> channels(std::int64_t j, std::int64_t width) const {
    return moments_of<L>(norm.moments, j, width, norm.epsilon);
  }
  template <int L>
  __device__ void add(const Channels<L>& m, std::int64_t i, float (&sum)[2][L]) const {
    float value[L], dy[L];
    load<L>(norm.x + i, value);
    load<L>(norm.dy + i, dy);
    for (int k = 0; k < L; ++k) {
      sum[0][k] += dy[k] * ((value[k] - m.mean[k]) * m.inverse[k]);
      sum[1][k] += dy[k];
    }
  }
};

// blockIdx.x: the part of the rows.
template <int L, class Term>
__global__ void channel_partials_kernel(Term term, Rows size, std::int64_t each, float* partials) {
  constexpr int kSums = Term::kSums;
  __shared__ float of_threads[kSums * L][kThreads];
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
  const std::int64_t j = (std::int64_t{blockIdx.y} * blockDim.x + threadIdx.x) * L;
  float sum[kSums][L] = {};
  if (j < size.width) {
    const auto channels = term.template channels<L>(j, size.width);
    const std::int64_t first = blockIdx.x * each, last = min(first + each, size.rows);
    for (std::int64_t row = first + threadIdx.y; row < last; row += blockDim.y)
      term.template add<L>(channels, row * size.width + j, sum);
  }
  for (int s = 0; s < kSums; ++s) {
    for (int k = 0; k < L; ++k) of_threads[s * L + k][thread] = sum[s][k];
  }
  // A tree over the threads of a channel: the same order in every block.
  for (unsigned apart = blockDim.y / 2; apart > 0; apart /= 2) {
    __syncthreads();
    if (threadIdx.y >= apart) continue;
    for (int n = 0; n < kSums * L; ++n)
      of_threads[n][thread] += of_threads[n][thread + apart * blockDim.x];
  }
  if (threadIdx.y != 0 || j >= size.width) return;
  for (int s = 0; s < kSums; ++s) {
    float whole[L];
    for (int k = 0; k < L; ++k) whole[k] = of_threads[s * L + k][thread];
    store<L>(partials + (std::int64_t{blockIdx.x} * kSums + s) * size.width + j, whole);
  }
}

// As sums.cu's sum_partials_kernel, in double. Block: kWarp columns x kSlices. to[j] = scale * the
// sum over rows of partials[row, j].
__global__ void sum_parts_kernel(const float* partials, Rows size, double scale, float* to) {
  __shared__ double slices[kSlices][kWarp];
  const std::int64_t j = std::int64_t{blockIdx.x} * kWarp + threadIdx.x;
  const std::int64_t each = (size.rows + kSlices - 1) / kSlices;
  const std::int64_t first = threadIdx.y * each, last = min(first + each, size.rows);
  double sum = 0;
  if (j < size.width) {
    for (std::int64_t row = first; row < last; ++row) sum += partials[row * size.width + j];
  }
  slices[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || j >= size.width) return;
  // The slices of a column in ascending order, by its first thread.
  for (int slice = 1; slice < kSlices; ++slice) sum += slices[slice][threadIdx.x];
  to[j] = static_cast<float>(sum * scale);
}

template <class E, int L>
__global__ void batch_norm_kernel(BatchNorm<E> norm, Rows size, E* y) {
  const std::int64_t j = (std::int64_t{blockIdx.y} * blockDim.x + threadIdx.x) * L;
  if (j >= size.width) return;
  const Moments<L> m = moments_of<L>(norm.moments, j, size.width, norm.epsilon);
  float by[L], shift[L];
  load<L>(norm.gain + j, by);
  load<L>(norm.shift + j, shift);
  for (int k = 0; k < L; ++k) by[k] *= m.inverse[k];
  for (int r = 0; r < kRowsOfThread; ++r) {
    const std::int64_t row =
        (std::int64_t{blockIdx.x} * kRowsOfThread + r) * blockDim.y + threadIdx.y;
    if (row >= size.rows) return;
    float value[L];
    load<L>(norm.x + row * size.width + j, value);
    for (int k = 0; k < L; ++k) value[k] = (value[k] - m.mean[k]) * by[k] + shift[k];
    store<L>(y + row * size.width + j, value);
  }
}

template <class E, int L>
__global__ void batch_norm_gradient_kernel(BatchNormGradient<E> norm, Rows size) {
  const std::int64_t j = (std::int64_t{blockIdx.y} * blockDim.x + threadIdx.x) * L;
  if (j >= size.width) return;
  const Moments<L> m = moments_of<L>(norm.moments, j, size.width, norm.epsilon);
  float by[L], along[L], mean[L];
  load<L>(norm.gain + j, by);
  load<L>(norm.gradients + j, along);
  load<L>(norm.gradients + size.width + j, mean);
  const float share = 1.0F / static_cast<float>(size.rows);
  for (int k = 0; k < L; ++k) {
    by[k] *= m.inverse[k];
    along[k] *= share * m.inverse[k];
    mean[k] *= share;
  }
  for (int r = 0; r < kRowsOfThread; ++r) {
    const std::int64_t row =
        (std::int64_t{blockIdx.x} * kRowsOfThread + r) * blockDim.y + threadIdx.y;
    if (row >= size.rows) return;
    float value[L], dy[L];
    load<L>(norm.x + row * size.width + j, value);
    load<L>(norm.dy + row * size.width + j, dy);
    for (int k = 0; k < L; ++k)
      value[k] = by[k] * (dy[k] - mean[k] - (value[k] - m.mean[k]) * along[k]);
    store<L>(norm.dx + row * size.width + j, value);
  }
}

template <class E>
__global__ void add_moments_kernel(const float* moments, const E* running, std::int64_t channels,
                                   float share, Beta beta, float* sums) {
  const std::int64_t c = thread_index();
  if (c >= channels) return;
  const float off = moments[c] - static_cast<float>(running[c]);
  const float first = share * off, second = share * (moments[channels + c] + off * off);
  sums[c] = beta == Beta::one ? sums[c] + first : first;
  sums[channels + c] = beta == Beta::one ? sums[channels + c] + second : second;
}

__global__ void move_statistics_kernel(const __grid_constant__ MovedStatistics moved) {
  const std::int64_t c = thread_index(), n = moved.channels;
  if (c >= n) return;
  double first = 0, second = 0;
  for (int i = 0; i < moved.sums.count; ++i) {
    first += moved.sums.of[i][c];
    second += moved.sums.of[i][n + c];
  }
  float& mean = moved.running.master[c];
  float& spread = moved.running.master[n + c];
  // The mean that the moments are about, as W read it: in 16 bits not quite the master's.
  Bf16* const working = moved.running.working;
  const double about = working == nullptr ? mean : static_cast<float>(working[c]);
  // Rounding may leave less than no variance.
  const double variance = max(second - first * first, 0.0) * moved.unbiased;
  mean = static_cast<float>(mean + moved.momentum * (about + first - mean));
  spread = static_cast<float>(spread + moved.momentum * (variance - spread));
  if (working == nullptr) return;
  working[c] = static_cast<Bf16>(mean);
  working[n + c] = static_cast<Bf16>(spread);
}

template <int L, class Term>
void channel_partials(Term term, Rows size, float* partials, cudaStream_t stream) {
  const std::int64_t each = rows_of_part(size.rows);
  const dim3 block = block_for(size.width, L);
  const dim3 grid(blocks_for(size.rows, static_cast<int>(each)),
                  blocks_for(size.width, static_cast<int>(block.x) * L));
  channel_partials_kernel<L, Term><<<grid, block, 0, stream>>>(term, size, each, partials);
}

// to[s, channel] = scale * the sums of the term.
template <class E, class Term>
void channel_sums(Term term, Rows size, bool vectors, double scale, float* partials, float* to,
                  cudaStream_t stream) {
  with_lanes<E>(vectors, [&](auto lanes) {
    constexpr int L = lanes;
    channel_partials<L>(term, size, partials, stream);
  });
  check_launch("channel_partials");
  const Rows parts{(size.rows + rows_of_part(size.rows) - 1) / rows_of_part(size.rows),
                   Term::kSums * size.width};
  sum_parts_kernel<<<blocks_for(parts.width, kWarp), dim3(kWarp, kSlices), 0, stream>>>(
      partials, parts, scale, to);
  check_launch("sum_parts");
}

// Rows of a block in x, channels in y.
dim3 grid_over(Rows size, dim3 block, int lanes) {
  return {blocks_for(size.rows, static_cast<int>(block.y) * kRowsOfThread),
          blocks_for(size.width, static_cast<int>(block.x) * lanes)};
}

}  // namespace

template <class E>
void channel_moments(const E* x, Rows size, float* partials, float* moments, cudaStream_t stream) {
  const bool vectors = takes_vectors<E>(size.width, x, partials, moments);
  const double share = 1.0 / static_cast<double>(size.rows);
  channel_sums<E>(Values<E>{x}, size, vectors, share, partials, moments, stream);
  channel_sums<E>(Squared<E>{x, moments}, size, vectors, share, partials, moments + size.width,
                  stream);
}
template void channel_moments(const float*, Rows, float*, float*, cudaStream_t);
template void channel_moments(const Bf16*, Rows, float*, float*, cudaStream_t);

template <class E>
void batch_norm(const BatchNorm<E>& norm, Rows size, E* y, cudaStream_t stream) {
  const bool vectors = takes_vectors<E>(size.width, norm.x, norm.moments, norm.gain, norm.shift, y);
  with_lanes<E>(vectors, [&](auto lanes) {
    constexpr int L = lanes;
    const dim3 block = block_for(size.width, L);
    const dim3 grid = grid_over(size, block, L);
    batch_norm_kernel<E, L><<<grid, block, 0, stream>>>(norm, size, y);
  });
  check_launch("batch_norm");
}
template void batch_norm(const BatchNorm<float>&, Rows, float*, cudaStream_t);
template void batch_norm(const BatchNorm<Bf16>&, Rows, Bf16*, cudaStream_t);

template <class E>
void batch_norm_gradient(const BatchNormGradient<E>& norm, Rows size, cudaStream_t stream) {
  const bool vectors = takes_vectors<E>(size.width, norm.x, norm.moments, norm.gain, norm.dy,
                                        norm.dx, norm.gradients, norm.partials);
  channel_sums<E>(Gradient<E>{norm}, size, vectors, 1.0, norm.partials, norm.gradients, stream);
  with_lanes<E>(vectors, [&](auto lanes) {
    constexpr int L = lanes;
    const dim3 block = block_for(size.width, L);
    const dim3 grid = grid_over(size, block, L);
    batch_norm_gradient_kernel<E, L><<<grid, block, 0, stream>>>(norm, size);
  });
  check_launch("batch_norm_gradient");
}
template void batch_norm_gradient(const BatchNormGradient<float>&, Rows, cudaStream_t);
template void batch_norm_gradient(const BatchNormGradient<Bf16>&, Rows, cudaStream_t);

template <class E>
void add_moments(const float* moments, const E* running, std::int64_t channels, float share,
                 Beta beta, float* sums, cudaStream_t stream) {
  add_moments_kernel<E><<<blocks_for(channels), kThreads, 0, stream>>>(moments, running, channels,
                                                                       share, beta, sums);
  check_launch("add_moments");
}
template void add_moments(const float*, const float*, std::int64_t, float, Beta, float*,
                          cudaStream_t);
template void add_moments(const float*, const Bf16*, std::int64_t, float, Beta, float*,
                          cudaStream_t);

void move_statistics(const MovedStatistics& moved, cudaStream_t stream) {
  move_statistics_kernel<<<blocks_for(moved.channels), kThreads, 0, stream>>>(moved);
  check_launch("move_statistics");
}

}  // namespace weir::cuda
