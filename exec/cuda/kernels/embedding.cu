// Sums of token, position and type rows, and their gradients summed in order of rows.
// SPDX-License-Identifier: Apache-2.0
#include <cassert>

#include "exec/cuda/kernels/device.cuh"
#include "exec/cuda/kernels/embedding.hpp"
#include "exec/cuda/kernels/sums.hpp"

namespace weir::cuda {
namespace {

constexpr int kWarps = kThreads / kWarp;
constexpr int kBlocksATime =
    3;  // on a multiprocessor at the least: blocks that look tokens through mostly wait

template <int L, class E>
__device__ void add_row(const E* from, float (&value)[L]) {
  float more[L];
  load<L>(from, more);
  for (int k = 0; k < L; ++k) value[k] += more[k];
}

// A thread: L columns of one row.
template <class E, int L>
__global__ void embed_kernel(Tokens tokens, TableRows has, EmbeddingTables<E> tables,
                             std::int64_t width, StepMask given, E* y) {
  const std::int64_t i = thread_index() * L;
  if (i >= tokens.rows() * width) return;
  const std::int64_t row = i / width, j = i % width;
  float value[L] = {}, factor[L];
  const std::int64_t of_table = tokens.ids[row] - has.first;
  if (of_table >= 0 && of_table < has.count) load<L>(tables.token + of_table * width + j, value);
  if (tables.position != nullptr)
    add_row<L>(tables.position + row % tokens.seq_length * width + j, value);
  if (tables.type != nullptr)
    add_row<L>(tables.type + std::int64_t{tokens.types[row]} * width + j, value);
  // Dropout comes after the sum, as one mask over all of it.
  factors<L>(at_this_step(given), static_cast<std::uint64_t>(i), factor);
  for (int k = 0; k < L; ++k) value[k] *= factor[k];
  store<L>(y + i, value);
}

template <class E, int L>
__global__ void add_positions_kernel(const E* position, std::int64_t first, std::int64_t seq_length,
                                     StepMask given, Rows size, E* y) {
  const std::int64_t i = thread_index() * L;
  if (i >= size.rows * size.width) return;
  float value[L], factor[L];
  load<L>(y + i, value);
  // Added here and not by add_row, with which each thread takes more registers.
  if (position != nullptr) {
    float place[L];
    const std::int64_t row = first + i / size.width;
    load<L>(position + row % seq_length * size.width + i % size.width, place);
    for (int k = 0; k < L; ++k) value[k] += place[k];
  }
  factors<L>(at_this_step(given), static_cast<std::uint64_t>(i), factor);
  for (int k = 0; k < L; ++k) value[k] *= factor[k];
  store<L>(y + i, value);
}

// Tokens are looked through in the order of rows.
constexpr int kPlacesAThread = 8;
constexpr int kPlaces = kThreads * kPlacesAThread;  // looked at between two meetings of a block

// Bit k: the token is that of row begin + k * kThreads + this thread, at `end` and beyond it is
// not.
__device__ unsigned places_of(const Tokens& tokens, std::int32_t id, std::int64_t begin,
                              std::int64_t end) {
  unsigned places = 0;
  for (int k = 0; k < kPlacesAThread; ++k) {
    const std::int64_t place = begin + k * kThreads + threadIdx.x;
    if (place < end && tokens.ids[place] == id) places |= 1U << k;
  }
  return places;
}

// Writes the rows of all threads' places, ascending, and returns how many. Every thread of the
// block calls it.
__device__ int rows_of(unsigned places, std::int64_t begin, std::int64_t (&rows)[kPlaces]) {
  __shared__ unsigned ballots[kPlacesAThread * kWarps];  // in the order of places
  const int warp = static_cast<int>(threadIdx.x) / kWarp,
            lane = static_cast<int>(threadIdx.x) % kWarp;
  __syncthreads();  // ballots and rows may still be read from the call before
  // Phase 1: who of each warp has a place, one word a warp.
  for (int k = 0; k < kPlacesAThread; ++k) {
    const unsigned lanes = __ballot_sync(kWholeWarp, (places >> k & 1U) != 0);
    if (lane == 0) ballots[k * kWarps + warp] = lanes;
  }
  __syncthreads();
  // Phase 2: every thread counts the words before its own. So rows come out in ascending order
  // without an atomic, and the sum has the same bits in every run.
  int before = 0;
#pragma unroll 4
  for (int i = 0; i < kPlacesAThread * kWarps; ++i) {
    const unsigned lanes = ballots[i];
    if (i % kWarps == warp && (lanes >> lane & 1U) != 0) {
      rows[before + __popc(lanes & ((1U << lane) - 1U))] = begin + i * kWarp + lane;
    }
    before += __popc(lanes);
  }
  __syncthreads();
  return before;
}

// The block of a token's first row adds all its rows, a thread L columns at a time; the blocks of
// its other rows do nothing.
template <class E, int L>
__global__ void __launch_bounds__(kThreads, kBlocksATime)
    embed_token_gradient_kernel(Tokens tokens, TableRows has, const E* dy, std::int64_t width,
                                StepMask given, float* gradient) {
  __shared__ std::int64_t rows[kPlaces];
  const std::int64_t own = blockIdx.x, end = tokens.rows();
  const std::int32_t id = tokens.ids[own];
  const std::int64_t of_table = id - has.first;
  if (of_table < 0 || of_table >= has.count) return;
  // Is this the token's first row? If an earlier place holds the token, that row's block does the
  // sum.
  for (std::int64_t begin = 0; begin < own; begin += kPlaces) {
    if (__syncthreads_or(static_cast<int>(places_of(tokens, id, begin, own))) != 0) return;
  }
  const DropoutMask mask = at_this_step(given);
  gradient += of_table * width;
  for (std::int64_t columns = 0; columns < width; columns += std::int64_t{kThreads} * L) {
    const std::int64_t j = columns + std::int64_t{threadIdx.x} * L;
    // Begins with what earlier micro-batches left: gradients accumulate in their order.
    float sum[L] = {};
    if (j < width) load<L>(gradient + j, sum);
    // Phase 2: look through all places from the first row on, kPlaces at a time.
    for (std::int64_t begin = own; begin < end; begin += kPlaces) {
      const unsigned places = places_of(tokens, id, begin, end);
      // The vote is uniform: either the whole block goes into rows_of and its barriers, or no
      // thread does.
      if (__syncthreads_or(static_cast<int>(places)) == 0) continue;
      const int count = rows_of(places, begin, rows);
      // Threads beyond the width still take part in the barriers, but add nothing.
      const int added = j < width ? count : 0;
#pragma unroll 4  // loads of several rows on their way at once: some tokens have hundreds
      for (int n = 0; n < added; ++n) {
        float value[L], factor[L];
        load<L>(dy + rows[n] * width + j, value);
        factors<L>(mask, static_cast<std::uint64_t>(rows[n] * width + j), factor);
        for (int k = 0; k < L; ++k) sum[k] += value[k] * factor[k];
      }
    }
    if (j < width) store<L>(gradient + j, sum);
  }
}

template <class E, int L>
__global__ void embed_position_gradient_kernel(Tokens tokens, const E* dy, std::int64_t width,
                                               StepMask given, float* gradient) {
  const std::int64_t i = thread_index() * L;
  if (i >= tokens.seq_length * width) return;
  const DropoutMask mask = at_this_step(given);
  float sum[L];
  load<L>(gradient + i, sum);
  // Samples in ascending order: one thread adds them all, so no atomic changes the order.
  for (std::int64_t b = 0; b < tokens.batch; ++b) {
    const std::int64_t at = b * tokens.seq_length * width + i;
    float value[L], factor[L];
    load<L>(dy + at, value);
    factors<L>(mask, static_cast<std::uint64_t>(at), factor);
    for (int k = 0; k < L; ++k) sum[k] += value[k] * factor[k];
  }
  store<L>(gradient + i, sum);
}

// A thread: L columns; blockIdx.y: kRowsPerPartial rows, of which those of type blockIdx.z count.
// There are few types, so their gradients are sums over columns, each with a part of the rows.
template <class E, int L>
__global__ void type_partials_kernel(Tokens tokens, const E* dy, std::int64_t width, StepMask given,
                                     float* partials) {
  const std::int64_t j = thread_index() * L;
  if (j >= width) return;
  const std::int64_t first = std::int64_t{blockIdx.y} * kRowsPerPartial;
  const std::int64_t last = min(first + kRowsPerPartial, tokens.rows());
  const DropoutMask mask = at_this_step(given);
  float sum[L] = {};
  for (std::int64_t row = first; row < last; ++row) {
    if (tokens.types[row] != static_cast<std::int32_t>(blockIdx.z)) continue;
    float value[L], factor[L];
    load<L>(dy + row * width + j, value);
    factors<L>(mask, static_cast<std::uint64_t>(row * width + j), factor);
    for (int k = 0; k < L; ++k) sum[k] += value[k] * factor[k];
  }
  // As a row of all types' columns, which the second stage adds to the whole table.
  store<L>(partials + (std::int64_t{blockIdx.y} * gridDim.z + blockIdx.z) * width + j, sum);
}

}  // namespace

template <class E>
void embed(Tokens tokens, TableRows has, const EmbeddingTables<E>& tables, std::int64_t width,
           const StepMask& mask, E* y, cudaStream_t stream) {
  const std::int64_t n = tokens.rows() * width;
  const bool vectors = takes_vectors<E>(width, tables.token, tables.position, tables.type, y);
  with_lanes<E>(vectors, [&](auto lanes) {
    constexpr int L = lanes;
    embed_kernel<E, L>
        <<<blocks_for(n, kThreads * L), kThreads, 0, stream>>>(tokens, has, tables, width, mask, y);
  });
  check_launch("embed");
}
template void embed(Tokens, TableRows, const EmbeddingTables<float>&, std::int64_t, const StepMask&,
                    float*, cudaStream_t);
template void embed(Tokens, TableRows, const EmbeddingTables<Bf16>&, std::int64_t, const StepMask&,
                    Bf16*, cudaStream_t);

template <class E>
void add_positions(const E* position, std::int64_t first, std::int64_t seq_length,
                   const StepMask& mask, Rows size, E* y, cudaStream_t stream) {
  with_lanes<E>(takes_vectors<E>(size.width, position, y), [&](auto lanes) {
    constexpr int L = lanes;
    add_positions_kernel<E, L>
        <<<blocks_for(size.rows * size.width, kThreads * L), kThreads, 0, stream>>>(
            position, first, seq_length, mask, size, y);
  });
  check_launch("add_positions");
}
template void add_positions(const float*, std::int64_t, std::int64_t, const StepMask&, Rows, float*,
                            cudaStream_t);
template void add_positions(const Bf16*, std::int64_t, std::int64_t, const StepMask&, Rows, Bf16*,
                            cudaStream_t);

template <class E>
void embed_gradient(Tokens tokens, TableRows has, const E* dy, std::int64_t width,
                    const StepMask& mask, float* token_gradient, float* position_gradient,
                    cudaStream_t stream) {
  assert(tokens.rows() < (std::int64_t{1} << 31) && "a block a row");
  const auto rows = static_cast<unsigned>(tokens.rows());
  // Both kernels add to fp32 sums, so those too must begin on 16 bytes for vectors.
  with_lanes<E>(takes_vectors<E>(width, dy, token_gradient, position_gradient), [&](auto lanes) {
    constexpr int L = lanes;
    embed_token_gradient_kernel<E, L>
        <<<rows, kThreads, 0, stream>>>(tokens, has, dy, width, mask, token_gradient);
    if (position_gradient != nullptr) {
      const unsigned blocks = blocks_for(tokens.seq_length * width, kThreads * L);
      embed_position_gradient_kernel<E, L>
          <<<blocks, kThreads, 0, stream>>>(tokens, dy, width, mask, position_gradient);
    }
  });
  check_launch("embed_gradient");
}
template void embed_gradient(Tokens, TableRows, const float*, std::int64_t, const StepMask&, float*,
                             float*, cudaStream_t);
template void embed_gradient(Tokens, TableRows, const Bf16*, std::int64_t, const StepMask&, float*,
                             float*, cudaStream_t);

template <class E>
void type_gradient(Tokens tokens, const E* dy, Rows types, const StepMask& mask, Beta beta,
                   float* partials, float* gradient, cudaStream_t stream) {
  const auto parts = static_cast<unsigned>(partials_of(tokens.rows()));
  with_lanes<E>(takes_vectors<E>(types.width, dy, partials), [&](auto lanes) {
    constexpr int L = lanes;
    constexpr int kColumnThreads = 64;
    const dim3 grid(blocks_for(types.width, kColumnThreads * L), parts,
                    static_cast<unsigned>(types.rows));
    type_partials_kernel<E, L>
        <<<grid, kColumnThreads, 0, stream>>>(tokens, dy, types.width, mask, partials);
  });
  check_launch("type_gradient");
  sum_partials(partials, {parts, types.rows * types.width}, beta, {{gradient}, 1}, stream);
}
template void type_gradient(Tokens, const float*, Rows, const StepMask&, Beta, float*, float*,
                            cudaStream_t);
template void type_gradient(Tokens, const Bf16*, Rows, const StepMask&, Beta, float*, float*,
                            cudaStream_t);

}  // namespace weir::cuda
