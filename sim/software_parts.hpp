// What other software than the one that was taken keeps of a model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "costmodel/table/costs.hpp"
#include "plan/job/plan.hpp"
#include "plan/job/resolve.hpp"
#include "plan/job/stack.hpp"
#include "plan/model/model.hpp"
#include "plan/model/model_part.hpp"

namespace weir {

// What the leanest and the amplest software keep of a model's layers
// (costmodel/memory/software_bounds), for all plans that split them alike.
struct SoftwareParts {
  std::shared_ptr<const ModelPart> lean, ample;  // none: the memory has no such bound
};
// Both where nobody named the stack and the costs are built in; the least alone of products in FP8,
// whose recipes keep weights and gradients in several formats.
[[nodiscard]] SoftwareParts software_parts(const Plan& plan, const Model& model, const Costs& costs,
                                           const Stack& stack);
// Of this plan, whose stages may hold layers otherwise than the model has them.
[[nodiscard]] SoftwareParts software_parts(const ResolvedPlan& resolved, const Costs& costs,
                                           const Stack& stack);

}  // namespace weir
