// A launch takes a table of arrays, each cut into pieces, and a block finds the array of its piece;
// a thread has one number of each term at a time.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "exec/cuda/kernels/device.cuh"
#include "exec/cuda/kernels/ordered_sums.hpp"

namespace weir::cuda {
namespace {

constexpr std::int64_t kPiece = std::int64_t{16} * kThreads;  // sixteen rounds of a block
constexpr int kMost = 128;                                    // arrays of a launch
struct Arrays {
  OrderedSum of[kMost];
  std::uint32_t first_piece[kMost];  // among those of the launch
  int count;
};

// The last array whose first piece is not behind the block's.
__device__ int array_of(const Arrays& arrays, unsigned piece) {
  int first = 0, last = arrays.count;
  while (last - first > 1) {
    const int middle = (first + last) / 2;
    if (arrays.first_piece[middle] <= piece) {
      first = middle;
    } else {
      last = middle;
    }
  }
  return first;
}

__global__ void ordered_sums_kernel(const __grid_constant__ Arrays arrays, SumOrder order) {
  const int array = array_of(arrays, blockIdx.x);
  const OrderedSum& one = arrays.of[array];
  const std::int64_t begin = std::int64_t{blockIdx.x - arrays.first_piece[array]} * kPiece;
  const std::int64_t end = min(begin + kPiece, one.n);
  // Threads of different elements need not agree on anything: no barrier here.
  for (std::int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    const float* other = one.others + i;
    float sum = 0;
    // Terms in ascending order, own one in its place: every rank gets the same bits from its own
    // point of view.
    for (int term = 0; term < order.terms; ++term) {
      float value = 0;
      if (term == order.own) {
        value = one.own[i];
      } else {
        value = *other;
        other += order.stride;
      }
      // From the first term, not from zero: 0 + -0 would lose a sign.
      sum = term == 0 ? value : sum + value;
    }
    one.own[i] = sum;
  }
}

// L numbers from i on.
template <class E, class Combine, int L>
__device__ void combine_some(const Terms<E>& terms, const SumOrder& order, std::int64_t i) {
  const E* other = terms.others + i;
  float all[L];
  for (int term = 0; term < order.terms; ++term) {
    float value[L];
    if (term == order.own) {
      load<L>(terms.own + i, value);
    } else {
      load<L>(other, value);
      other += order.stride;
    }
    for (int k = 0; k < L; ++k) all[k] = term == 0 ? value[k] : Combine{}(all[k], value[k]);
  }
  store<L>(terms.to + i, all);
}

template <class E, class Combine, int L>
__global__ void combine_kernel(Terms<E> terms, SumOrder order) {
  std::int64_t i = thread_index() * L;
  if (i + L <= terms.n) {
    combine_some<E, Combine, L>(terms, order, i);
  } else {
    for (; i < terms.n; ++i) combine_some<E, Combine, 1>(terms, order, i);
  }
}

template <class E, class Combine>
void run_combine(const Terms<E>& terms, const SumOrder& order, cudaStream_t stream) {
  with_lanes<E>(takes_vectors<E>(order.stride, terms.own, terms.others, terms.to), [&](auto lanes) {
    constexpr int L = lanes;
    combine_kernel<E, Combine, L>
        <<<blocks_for(terms.n, kThreads * L), kThreads, 0, stream>>>(terms, order);
  });
  check_launch("combine");
}

}  // namespace

template <class E>
void combine(Together how, const Terms<E>& terms, const SumOrder& order, cudaStream_t stream) {
  if (terms.n == 0) return;
  if (how == Together::largest) return run_combine<E, Max>(terms, order, stream);
  run_combine<E, Sum>(terms, order, stream);
}
template void combine(Together, const Terms<float>&, const SumOrder&, cudaStream_t);
template void combine(Together, const Terms<Bf16>&, const SumOrder&, cudaStream_t);

void ordered_sums(const std::vector<OrderedSum>& sums, const SumOrder& order, cudaStream_t stream) {
  // A kernel's arguments are limited, so many arrays take several launches.
  for (std::size_t first = 0; first < sums.size(); first += kMost) {
    Arrays arrays{};
    arrays.count = static_cast<int>(std::min<std::size_t>(kMost, sums.size() - first));
    std::uint32_t pieces = 0;
    // Where each array's pieces begin: what the kernel searches.
    for (int i = 0; i < arrays.count; ++i) {
      arrays.of[i] = sums[first + static_cast<std::size_t>(i)];
      arrays.first_piece[i] = pieces;
      pieces += static_cast<std::uint32_t>((arrays.of[i].n + kPiece - 1) / kPiece);
    }
    ordered_sums_kernel<<<pieces, kThreads, 0, stream>>>(arrays, order);
    check_launch("ordered_sums");
  }
}

}  // namespace weir::cuda
