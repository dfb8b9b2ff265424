// Bytes a parameter, and what ZeRO leaves of them (docs/theory.md 7.1 and 7.2).
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/memory/training_state.hpp"

namespace weir {

StateBytes state_bytes(const Optimizer& optimizer, Dtype dtype) {
  const std::int64_t weights = bytes_per_element(dtype);
  const std::int64_t master = weights < 4 ? 4 : 0;
  return {weights, 4, master + std::int64_t{4} * state_numbers(optimizer)};
}

StateShare zero_share(std::int64_t parameters, const StateBytes& bytes, int zero, int replicas) {
  const auto share = [&](std::int64_t each, int divided_from) {
    const std::int64_t whole = parameters * each;
    return Bytes(zero >= divided_from ? ceil_div(whole, replicas) : whole);
  };
  return {share(bytes.weights, 3), share(bytes.gradients, 2), share(bytes.optimizer, 1)};
}

}  // namespace weir
