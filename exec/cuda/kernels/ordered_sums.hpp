// What several replicas have of some arrays, or several devices of a tensor that they divide, added
// in their order: element by element, so that how arrays are cut into messages changes no bit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "exec/cuda/kernels/types.hpp"

namespace weir::cuda {

// own[i] = the sum of all terms' i-th numbers, this one's own in its place among them. The others'
// lie `stride` numbers apart, in ascending order.
struct OrderedSum {
  float* own;
  const float* others;
  std::int64_t n;  // 1 or more
};
struct SumOrder {
  int terms, own;
  std::int64_t stride;
};
void ordered_sums(const std::vector<OrderedSum>& sums, const SumOrder& order, cudaStream_t stream);

// The same of one array of activations, in fp32 and rounded once: to[i] = the sum, or the largest,
// of all terms' i-th numbers, of which `own` are this device's. `to` may be `own`.
enum class Together : std::uint8_t { sum, largest };
template <class E>
struct Terms {
  const E* own;
  const E* others;
  std::int64_t n;
  E* to;
};
template <class E>
void combine(Together how, const Terms<E>& terms, const SumOrder& order, cudaStream_t stream);

}  // namespace weir::cuda
