// What the exchanges of experts can hide behind (docs/theory.md 6.3).
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/links/expert_overlap.hpp"

namespace weir {

std::optional<std::string_view> why_experts_wait(const Plan& plan) {
  if (plan.microbatches < 2) return "M = 1 has no other micro-batch";
  if (plan.pp > 1 && plan.vpp == 1) return "a pipeline needs v above 1 for it";
  if (plan.schedule == "gpipe" || plan.schedule == "looped-bfs")
    return "all forwards before all backwards leave no two side by side";
  if (plan.expert_dispatch == ExpertDispatch::allgather)
    return "tokens that are gathered (expert_dispatch) are not sent beside other work";
  switch (plan.recompute.mode) {
    case RecomputeMode::full:
    case RecomputeMode::stage:
      return "blocks that are rebuilt as a whole have none";
    case RecomputeMode::selective:
      if (plan.recompute.modules.meets(BlockModule::moe))
        return "experts that are rebuilt have none";
      break;
    case RecomputeMode::none:
      break;
  }
  return std::nullopt;
}

double expert_overlap(const Plan& plan, const StackTime& stack) {
  if (!plan.overlap_experts || why_experts_wait(plan)) return 0;
  const double m = plan.microbatches;
  return stack.expert_overlap * (m - 1) / m;
}

}  // namespace weir
