// A thread takes pairs of vectors of a head, L numbers of its first half and the L of the second
// that turn with them. Turned alone, a block takes a row and its threads any pair. With norms a
// group of a warp's threads takes a head, since it needs the sum of its squares:
//
//   head  | lane 0 | lane 1 | ... | lane G-1 |  first half, kPairs times over
//         | lane 0 | lane 1 | ... | lane G-1 |  second half
//
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/kernels/device.cuh"
#include "exec/cuda/kernels/heads.hpp"

namespace weir::cuda {
namespace {

constexpr unsigned kMostThreads = 512;

// Pairs of vectors that a thread of a group takes: a group is of at most a warp's threads.
template <int L>
constexpr int kPairs = L == 1 ? 4 : 1;
static_assert(2 * 4 * kWarp * kPairs<4> >= kMostHeadWidth, "a group takes a head in fp32");
static_assert(2 * 1 * kWarp * kPairs<1> >= kMostHeadWidth, "and number by number");

// The numbers of a pair become those of its turn by the angles of one position.
template <int L>
__device__ void turn_pair(const float* cosines, std::int64_t half, std::int64_t i, float sign,
                          float (&a)[L], float (&b)[L]) {
  float cosine[L], sine[L];
  load<L>(cosines + i, cosine);
  load<L>(cosines + half + i, sine);
  for (int k = 0; k < L; ++k) {
    // The backward turns by the negative angle: a rotation's transpose is its inverse.
    const float first = a[k], second = b[k], turn = sign * sine[k];
    a[k] = first * cosine[k] - second * turn;
    b[k] = second * cosine[k] + first * turn;
  }
}

// Of the row's position. Rows are counted in 32 bits: a division of 64 is a call.
__device__ const float* cosines_of(const Heads& z, std::int64_t row) {
  return z.table + static_cast<unsigned>(row) % static_cast<unsigned>(z.s) * z.d;
}
__device__ std::int64_t stride_of(const Heads& z) { return (z.queries + 2 * z.keys) * z.d; }

template <class E, int L>
__global__ void turn_heads_kernel(Heads z, float sign, E* qkv) {
  E* row = qkv + std::int64_t{blockIdx.x} * stride_of(z);
  const float* cosines = cosines_of(z, blockIdx.x);
  // All heads of a row turn by the angles of its position.
  const int half = static_cast<int>(z.d) / 2, vectors = half / L;
  const int pairs = static_cast<int>(z.turned()) * vectors;
  for (int pair = static_cast<int>(threadIdx.x); pair < pairs;
       pair += static_cast<int>(blockDim.x)) {
    const int i = pair % vectors * L;
    E* at = row + std::int64_t{pair / vectors} * z.d + i;
    float a[L], b[L];
    load<L>(at, a);
    load<L>(at + half, b);
    turn_pair<L>(cosines, half, i, sign, a, b);
    store<L>(at, a);
    store<L>(at + half, b);
  }
}

// Over the `group` threads that a head has, neighbours; every thread of the warp calls it.
__device__ float group_sum(float value, int group) {
  for (int apart = group / 2; apart > 0; apart /= 2)
    value += __shfl_xor_sync(kWholeWarp, value, apart);
  return value;
}

// One row a block. Whole warps go from head to head, of which the last may have none.
template <class E, int L>
__global__ void norm_heads_kernel(Heads z, HeadNorms<E> norms, int group, E* qkv) {
  const int lane = static_cast<int>(threadIdx.x) % group,
            own = static_cast<int>(threadIdx.x) / group,
            groups = static_cast<int>(blockDim.x) / group;
  const int heads = static_cast<int>(z.turned());
  const std::int64_t half = z.d / 2, row = blockIdx.x;
  // The loop's bound is the same for all threads: whole warps reach the shuffles of group_sum.
  for (int begin = 0; begin < heads; begin += groups) {
    const int head = begin + own;
    E* x = qkv + row * stride_of(z) + head * z.d;
    // Phase 1: the squares of the head, over its group of lanes.
    float squares = 0;
    for (int p = 0; p < kPairs<L>; ++p) {
      const std::int64_t i = (lane + p * group) * L;
      if (head >= heads || i >= half) continue;
      float a[L], b[L];
      load<L>(x + i, a);
      load<L>(x + half + i, b);
      for (int k = 0; k < L; ++k) squares += a[k] * a[k] + b[k] * b[k];
    }
    const float inverse =
        rsqrtf(group_sum(squares, group) / static_cast<float>(z.d) + norms.epsilon);
    // Only now may a group without a head leave: the sum above took all lanes.
    if (head >= heads) continue;
    E* raw = norms.raw + (row * heads + head) * z.d;
    const E* gains = head < z.queries ? norms.query_gain : norms.key_gain;
    // Phase 2: keep the raw numbers for the backward, then norm, gain and turn in place.
    for (int p = 0; p < kPairs<L>; ++p) {
      const std::int64_t i = (lane + p * group) * L;
      if (i >= half) continue;
      float a[L], b[L], gain[L], later[L];
      load<L>(x + i, a);
      load<L>(x + half + i, b);
      store<L>(raw + i, a);
      store<L>(raw + half + i, b);
      load<L>(gains + i, gain);
      load<L>(gains + half + i, later);
      for (int k = 0; k < L; ++k) {
        a[k] *= inverse * gain[k];
        b[k] *= inverse * later[k];
      }
      // The turn comes last: positions act on normed heads, and the backward undoes it first.
      if (z.table != nullptr) turn_pair<L>(cosines_of(z, row), half, i, 1.0F, a, b);
      store<L>(x + i, a);
      store<L>(x + half + i, b);
    }
    if (lane == 0) norms.statistics[row * heads + head] = inverse;
  }
}

// Of one head: n = x / rms, dx = (dy gain - n mean(dy gain n)) / rms. What a thread adds to the
// gains' gradients is dy n of the numbers that it takes of every head.
template <class E, int L>
__device__ void norm_head_gradient(const Heads& z, const E* raw, const E* gains, float inverse,
                                   const float* cosines, bool there, int lane, int group, E* d,
                                   float (&sums)[2][kPairs<L> * L]) {
  const std::int64_t half = z.d / 2;
  float n[2][kPairs<L> * L], weighed[2][kPairs<L> * L];
  // Phase 1: undo the turn of dy, and sum dy gain n over the head. What is not there counts zero.
  float product = 0;
#pragma unroll
  for (int p = 0; p < kPairs<L>; ++p) {
    const std::int64_t i = (lane + p * group) * L;
    float dy[2][L] = {}, x[2][L] = {}, gain[2][L] = {};
    if (there && i < half) {
      load<L>(d + i, dy[0]);
      load<L>(d + half + i, dy[1]);
      if (cosines != nullptr) turn_pair<L>(cosines, half, i, -1.0F, dy[0], dy[1]);
      for (int side = 0; side < 2; ++side) {
        load<L>(raw + side * half + i, x[side]);
        load<L>(gains + side * half + i, gain[side]);
      }
    }
    for (int side = 0; side < 2; ++side) {
      for (int k = 0; k < L; ++k) {
        const float normed = x[side][k] * inverse, of = dy[side][k] * gain[side][k];
        sums[side][p * L + k] += dy[side][k] * normed;
        product += of * normed;
        n[side][p * L + k] = normed;
        weighed[side][p * L + k] = of;
      }
    }
  }
  // All lanes of the warp come here, with a head or without: the shuffles need them.
  product = group_sum(product, group) / static_cast<float>(z.d);
#pragma unroll
  // Phase 2: dx, of what the first walk left in registers.
  for (int p = 0; p < kPairs<L>; ++p) {
    const std::int64_t i = (lane + p * group) * L;
    if (!there || i >= half) continue;
    for (int side = 0; side < 2; ++side) {
      float dx[L];
      for (int k = 0; k < L; ++k)
        dx[k] = (weighed[side][p * L + k] - n[side][p * L + k] * product) * inverse;
      store<L>(d + side * half + i, dx);
    }
  }
}

// A block: kRowsPerPartial rows, of their queries or, blockIdx.y 1, their keys. The groups' sums
// for the gain are then added in ascending order.
template <class E, int L>
__global__ void norm_heads_gradient_kernel(Heads z, HeadNormGradients<E> g, int group, E* d_qkv) {
  __shared__ float gain_sums[kMostHeadWidth];
  const bool keys = blockIdx.y == 1;
  const int heads = static_cast<int>(keys ? z.keys : z.queries),
            before = keys ? static_cast<int>(z.queries) : 0;
  const int lane = static_cast<int>(threadIdx.x) % group,
            own = static_cast<int>(threadIdx.x) / group,
            groups = static_cast<int>(blockDim.x) / group;
  const std::int64_t first = std::int64_t{blockIdx.x} * kRowsPerPartial;
  const int count = static_cast<int>(min(kRowsPerPartial, z.rows - first)) * heads;
  const E* gains = keys ? g.norms.key_gain : g.norms.query_gain;
  // Phase 1: every group walks its heads of the block's rows and keeps the gain's sums in
  // registers.
  float sums[2][kPairs<L> * L] = {};
  for (int begin = 0; begin < count; begin += groups) {
    const int item = begin + own;
    const bool there = item < count;
    // An item that is not there reads row `first`, which exists, and contributes nothing.
    const std::int64_t row = first + (there ? item / heads : 0);
    const int head = before + (there ? item % heads : 0);
    const std::int64_t kept = row * z.turned() + head;
    const float* cosines = z.table == nullptr ? nullptr : cosines_of(z, row);
    norm_head_gradient<E, L>(z, g.norms.raw + kept * z.d, gains, g.norms.statistics[kept], cosines,
                             there, lane, group, d_qkv + row * stride_of(z) + head * z.d, sums);
  }
  // Phase 2: the groups take turns, so that the order of additions does not depend on the run.
  const int half = static_cast<int>(z.d) / 2;
  for (int turn = 0; turn < groups; ++turn) {
#pragma unroll
    for (int e = 0; e < kPairs<L> * L; ++e) {
      const int i = (lane + e / L * group) * L + e % L;
      if (turn != own || i >= half) continue;
      gain_sums[i] = turn == 0 ? sums[0][e] : gain_sums[i] + sums[0][e];
      gain_sums[half + i] = turn == 0 ? sums[1][e] : gain_sums[half + i] + sums[1][e];
    }
    __syncthreads();
  }
  // Phase 3: the block's partial sums; queries' first, then keys'.
  float* to = g.partials + (std::int64_t{blockIdx.y} * gridDim.x + blockIdx.x) * z.d;
  for (int i = static_cast<int>(threadIdx.x); i < 2 * half; i += static_cast<int>(blockDim.x))
    to[i] = gain_sums[i];
}

// Threads of a head: a power of two, so that they are neighbours in a warp.
template <int L>
int group_of(std::int64_t d) {
  int group = 1;
  while (group < kWarp && std::int64_t{group} * L * kPairs<L> < d / 2) group *= 2;
  return group;
}

// Whole warps, so many that each has as many pairs to turn as the others.
unsigned threads_for_pairs(std::int64_t pairs) {
  const std::int64_t times = (pairs + kMostThreads - 1) / kMostThreads;
  const std::int64_t threads = (pairs + times - 1) / times;
  return static_cast<unsigned>((threads + kWarp - 1) / kWarp * kWarp);
}

}  // namespace

template <class E>
void turn_heads(const Heads& heads, Turn turn, E* qkv, cudaStream_t stream) {
  const float sign = turn == Turn::forth ? 1.0F : -1.0F;
  with_lanes<E>(takes_vectors<E>(heads.d / 2, qkv, heads.table), [&](auto lanes) {
    constexpr int L = lanes;
    const unsigned threads = threads_for_pairs(heads.turned() * (heads.d / 2 / L));
    turn_heads_kernel<E, L>
        <<<static_cast<unsigned>(heads.rows), threads, 0, stream>>>(heads, sign, qkv);
  });
  check_launch("turn_heads");
}
template void turn_heads(const Heads&, Turn, float*, cudaStream_t);
template void turn_heads(const Heads&, Turn, Bf16*, cudaStream_t);

template <class E>
void norm_heads(const Heads& heads, const HeadNorms<E>& norms, E* qkv, cudaStream_t stream) {
  const bool vectors =
      takes_vectors<E>(heads.d / 2, qkv, norms.raw, norms.query_gain, norms.key_gain, heads.table);
  with_lanes<E>(vectors, [&](auto lanes) {
    constexpr int L = lanes;
    norm_heads_kernel<E, L><<<static_cast<unsigned>(heads.rows), kThreads, 0, stream>>>(
        heads, norms, group_of<L>(heads.d), qkv);
  });
  check_launch("norm_heads");
}
template void norm_heads(const Heads&, const HeadNorms<float>&, float*, cudaStream_t);
template void norm_heads(const Heads&, const HeadNorms<Bf16>&, Bf16*, cudaStream_t);

template <class E>
void norm_heads_gradient(const Heads& heads, const HeadNormGradients<E>& gradients, E* d_qkv,
                         cudaStream_t stream) {
  const HeadNorms<E>& norms = gradients.norms;
  const bool vectors = takes_vectors<E>(heads.d / 2, d_qkv, norms.raw, norms.query_gain,
                                        norms.key_gain, heads.table);
  const std::int64_t parts = partials_of(heads.rows);
  with_lanes<E>(vectors, [&](auto lanes) {
    constexpr int L = lanes;
    norm_heads_gradient_kernel<E, L>
        <<<dim3(static_cast<unsigned>(parts), 2), kThreads, 0, stream>>>(
            heads, gradients, group_of<L>(heads.d), d_qkv);
  });
  check_launch("norm_heads_gradient");
  // One launch adds both gains' partial sums: they lie one behind the other.
  sum_partials(gradients.partials, {parts, heads.d}, Beta::zero,
               {{gradients.query_gain, gradients.key_gain}, 2}, stream);
}
template void norm_heads_gradient(const Heads&, const HeadNormGradients<float>&, float*,
                                  cudaStream_t);
template void norm_heads_gradient(const Heads&, const HeadNormGradients<Bf16>&, Bf16*,
                                  cudaStream_t);

}  // namespace weir::cuda
