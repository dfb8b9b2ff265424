// Which gradients belong to one weight: a tied table is used by several layers, a bidirectional
// schedule holds each stage twice. Known from the plan alone, so every rank knows what it must send
// to whom and in which order to sum.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "plan/job/resolve.hpp"
#include "plan/model/model_part.hpp"
#include "plan/program/program.hpp"

namespace weir {

// One use of a weight: a stage's parameter, by its index among all parameters of that stage in
// layer order.
struct GradientUse {
  int layer = 0;  // index in the model
  Stage stage;
  int parameter = 0;
  bool operator==(const GradientUse&) const = default;
};

struct StageParameter {
  ParameterTensor description;
  ParameterId id;
  ParameterId weight;  // its first use's id
};
// By global stage (copies included), the parameters of its layers in order.
[[nodiscard]] std::vector<std::vector<StageParameter>> stage_parameters(const ResolvedPlan& loaded);

// [stage][parameter]: the gradients to sum for it, in layer order and then by stage; empty for a
// second use of a weight on the same stage, which is updated with the first.
using GradientCopies = std::vector<std::vector<std::vector<GradientUse>>>;
[[nodiscard]] GradientCopies gradient_copies(const ResolvedPlan& loaded);

// By stage: its last B or W; -1 for a copy without micro-batches.
[[nodiscard]] std::vector<OperationId> last_gradients(const Program& program);

}  // namespace weir
