// Slices of equal size, but for the last.
// SPDX-License-Identifier: Apache-2.0
#include "exec/training/replica_share.hpp"

#include <algorithm>

namespace weir {
namespace {

constexpr std::int64_t kSliceUnit = 16;  // floats: slices begin on cache lines

}  // namespace

Slice replica_slice(std::int64_t elements, int replica, int replicas) {
  const std::int64_t share = ceil_div(elements, replicas);
  const std::int64_t size = ceil_div(share, kSliceUnit) * kSliceUnit;
  const std::int64_t first = std::min(elements, size * replica);
  return {first, std::min(elements - first, size)};
}

int dividing_replicas(const Plan& plan, const ParameterTensor& parameter, ParameterPart part) {
  const bool whole =
      part == ParameterPart::values && bytes_per_element(plan.dtype) == 4 && plan.zero < 3;
  const bool divided = plan.zero > 0 && !whole && !parameter.running;
  return divided ? plan.dp : 1;
}

bool keeps_gradient_slice(const Plan& plan, const ParameterTensor& parameter) {
  return plan.zero >= 2 && dividing_replicas(plan, parameter, ParameterPart::gradient) > 1;
}

bool keeps_weight_slice(const Plan& plan, const ParameterTensor& parameter) {
  return plan.zero >= 3 && dividing_replicas(plan, parameter, ParameterPart::gradient) > 1;
}

Tensor slice_of(const Tensor& tensor, const Slice& slice, std::int64_t element_bytes) {
  if (!tensor) return {};
  return {tensor.data + slice.first * element_bytes, slice.count * element_bytes};
}

}  // namespace weir
