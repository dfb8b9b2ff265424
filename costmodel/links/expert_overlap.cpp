// What the exchanges of experts can hide behind (docs/theory.md 6.3).
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/links/expert_overlap.hpp"

namespace weir {
namespace {

// Modules that a graph has recorded cannot be taken apart; one of a whole step has all of it.
bool records_experts(const CudaGraphs& graphs) {
  if (graphs.whole_step()) return false;
  return graphs.whole_blocks() || graphs.has(GraphPart::moe) || graphs.has(GraphPart::mlp);
}

}  // namespace

std::optional<std::string_view> why_experts_wait(const Plan& plan) {
  if (plan.microbatches < 2) return "M = 1 has no other micro-batch";
  if (plan.pp > 1 && plan.vpp == 1) return "a pipeline needs v above 1 for it";
  if (plan.schedule == "gpipe" || plan.schedule == "looped-bfs")
    return "all forwards before all backwards leave no two side by side";
  if (plan.expert_dispatch == ExpertDispatch::allgather)
    return "tokens that are gathered (expert_dispatch) are not sent beside other work";
  if (bytes_per_element(plan.dtype) != 2) return "it is done in bf16 and fp16 alone";
  if (plan.prediction_layers > 1)
    return "several blocks that predict further tokens are not taken apart";
  if (records_experts(plan.cuda_graphs)) return "experts and MLPs in CUDA graphs are one piece";
  // What takes the passes apart is not told where a row's sequences end.
  if (plan.lengths.known() && plan.lengths.rows != RowsOf::longest)
    return "rows of several sequences are not taken apart";
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
