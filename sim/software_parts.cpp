// Asks the two ends of what software holds.
// SPDX-License-Identifier: Apache-2.0
#include "sim/software_parts.hpp"

#include "costmodel/memory/software_bounds.hpp"
#include "plan/job/assumed_stack.hpp"
#include "plan/job/stack_part.hpp"

namespace weir {

SoftwareParts software_parts(const Plan& plan, const Model& model, const Costs& costs,
                             const Stack& stack) {
  SoftwareParts parts;
  if (costs.basis != Basis::builtin) return parts;
  const auto kept = [&](const Stack& by) {
    return std::make_shared<const ModelPart>(
        stack_part(model, plan.seq_length, plan.dtype, plan.split(), by));
  };
  const bool assumed = is_assumed(stack);
  const bool fp8 = stack.fp8 || plan.fp8 != Fp8Recipe::none;
  if (assumed || fp8) parts.lean = kept(leanest(stack, plan));
  if (assumed) parts.ample = kept(amplest(stack, plan));
  return parts;
}

SoftwareParts software_parts(const ResolvedPlan& resolved, const Costs& costs, const Stack& stack) {
  if (resolved.staged.empty()) return software_parts(resolved.plan, resolved.model, costs, stack);
  Model staged = resolved.model;
  staged.layers = resolved.layers();
  return software_parts(resolved.plan, staged, costs, stack);
}

}  // namespace weir
