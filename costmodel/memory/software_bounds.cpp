// The two ends of what software holds.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/memory/software_bounds.hpp"

#include <algorithm>

#include "plan/words/dtype.hpp"

namespace weir {

Stack leanest(Stack stack, const Plan& plan) {
  StackMemory& m = stack.memory;
  m.gradients = std::min(m.gradients, static_cast<double>(bytes_per_element(plan.dtype)));
  constexpr double kMoments = 2;
  m.optimizer = std::min(m.optimizer, kMoments * bytes_per_element(plan.dtype));
  if (stack.fp8 || plan.fp8 != Fp8Recipe::none) m.fp8_weights = 0;
  m.reserved_expected = 1;
  m.pending = m.pending_least;
  return stack;
}

Stack amplest(Stack stack, const Plan& plan) {
  StackMemory& m = stack.memory;
  constexpr double kNorms = 2, kNormKept = 4 + 2;
  m.block.push_back({.tensor = "norms' inputs in fp32 and results before their weights",
                     .width = Width::hidden,
                     .bytes = kNorms * kNormKept,
                     .share = Share::sequence,
                     .until_i = true});
  m.block.push_back({.tensor = "the gate's result", .width = Width::ffn, .bytes = 2});
  constexpr double kKept = 8, kForward = 12, kBackward = 16;  // bytes a logit
  m.logits_kept = std::max(m.logits_kept, kKept) * plan.tp;
  m.logits_forward = std::max(m.logits_forward, kForward) * plan.tp;
  m.logits_backward = std::max(m.logits_backward, kBackward) * plan.tp;
  return stack;
}

}  // namespace weir
