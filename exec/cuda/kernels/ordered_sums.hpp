// What several replicas have of some arrays, added in the replicas' order: element by element, so
// that how the arrays are cut into messages changes no bit.
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

}  // namespace weir::cuda
