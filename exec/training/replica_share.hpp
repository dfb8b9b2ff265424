// What a replica owns of a tensor that the replicas divide among them: the sum of its gradients
// that it makes, and under ZeRO (Rajbhandari et al., SC 2020, section 5) the optimizer's state that
// it keeps and the weights that it updates; from ZeRO-2 on it has no more of a gradient, and under
// ZeRO-3 no more of a weight.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "exec/device/arena.hpp"
#include "exec/training/each_weight.hpp"
#include "plan/job/plan.hpp"
#include "plan/model/layer_tensors.hpp"

namespace weir {

// Elements [first, first + count) of a tensor's, row by row.
struct Slice {
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool operator==(const Slice&) const = default;
};

// The slice of replica `replica` of `replicas`: ceil(elements / replicas) rounded up to whole cache
// lines of 16 floats, so the last may be shorter, or empty.
[[nodiscard]] Slice replica_slice(std::int64_t elements, int replica, int replicas);

// Replicas that divide this part of a parameter among them, by the plan: under ZeRO they keep their
// slice of what the optimizer holds of each weight, and make that of its gradient. Of values in
// fp32 that is nothing before ZeRO-3, and each replica has all; of a format of fewer bits the
// masters are what is asked for. Running statistics, of which it holds nothing, are every
// replica's.
[[nodiscard]] int dividing_replicas(const Plan& plan, const ParameterTensor& parameter,
                                    ParameterPart part);

// Whether a replica has its slice of the gradient and no more, beyond a pass of its layer (ZeRO-2);
// and of the weight (ZeRO-3).
[[nodiscard]] bool keeps_gradient_slice(const Plan& plan, const ParameterTensor& parameter);
[[nodiscard]] bool keeps_weight_slice(const Plan& plan, const ParameterTensor& parameter);

// So much of a tensor, in its place; elements are fp32 unless said otherwise.
[[nodiscard]] Tensor slice_of(const Tensor& tensor, const Slice& slice,
                              std::int64_t element_bytes = 4);

}  // namespace weir
