// Stages, ties and program of a plan.
// SPDX-License-Identifier: Apache-2.0
#include "plan/job/derive.hpp"

#include <utility>

#include "plan/job/direct_skips.hpp"

namespace weir {
namespace {

LoweringOptions lowering_options(const ResolvedPlan& resolved) {
  const Plan& plan = resolved.plan;
  LoweringOptions options;
  if (plan.recompute.mode == RecomputeMode::stage)
    options.recompute.assign(resolved.stages.size(), true);
  options.keep_last_microbatch = plan.recompute.except_last;
  options.placement = plan.recompute.placement;
  options.slots = plan.slots;
  options.reduce_all = plan.replicas() > 1;
  options.clips = plan.optimizer.clip_norm > 0;
  for (const Tie& tie : resolved.ties) options.tied.push_back(tie.holders);
  if (goes_directly(plan)) options.skips = skip_routes(resolved.model, plan.boundaries);
  return options;
}

// Layers as stages compute them, and what of skips they exchange.
void send_skips_directly(ResolvedPlan& resolved) {
  const Plan& plan = resolved.plan;
  Model staged = staged_model(resolved.model, plan.boundaries);
  resolved.part = std::make_shared<const ModelPart>(
      model_part(staged, plan.seq_length, plan.dtype, plan.split()));
  resolved.stages = stage_parts(*resolved.part, plan.boundaries, resolved.schedule.shape);
  put_rows(resolved.model, plan, resolved.stages);
  resolved.staged = std::move(staged.layers);
}

}  // namespace

ResolvedPlan derive(Plan plan, Model model, Schedule schedule,
                    std::shared_ptr<const ModelPart> part, const Lowered& lowered) {
  if (!part) {
    part = std::make_shared<const ModelPart>(
        model_part(model, plan.seq_length, plan.dtype, plan.split()));
  }
  ResolvedPlan resolved{.plan = std::move(plan),
                        .model = std::move(model),
                        .schedule = std::move(schedule),
                        .part = std::move(part)};
  // Each of these needs the one before: ties are of stages, and the program knows ties.
  resolved.stages = stage_parts(*resolved.part, resolved.plan.boundaries, resolved.schedule.shape);
  if (goes_directly(resolved.plan)) send_skips_directly(resolved);
  resolved.ties = ties_of(*resolved.part, resolved.stages, resolved.schedule.shape);
  resolved.lowering = lowering_options(resolved);
  resolved.program = lowered(resolved.schedule, resolved.lowering);
  return resolved;
}

ResolvedPlan derive(Plan plan, Model model, Schedule schedule,
                    std::shared_ptr<const ModelPart> part) {
  return derive(std::move(plan), std::move(model), std::move(schedule), std::move(part), lower);
}

ResolvedPlan with_boundaries(ResolvedPlan resolved, std::vector<int> boundaries) {
  if (goes_directly(resolved.plan)) {  // layers and messages follow from them
    resolved.plan.boundaries = std::move(boundaries);
    return derive(std::move(resolved.plan), std::move(resolved.model),
                  std::move(resolved.schedule));
  }
  resolved.plan.boundaries = std::move(boundaries);
  resolved.stages = stage_parts(*resolved.part, resolved.plan.boundaries, resolved.schedule.shape);
  // Where the boundaries are changes the program only by who holds a tied weight.
  auto ties = ties_of(*resolved.part, resolved.stages, resolved.schedule.shape);
  if (ties != resolved.ties) {
    resolved.ties = std::move(ties);
    resolved.lowering = lowering_options(resolved);
    resolved.program = lower(resolved.schedule, resolved.lowering);
  }
  return resolved;
}

}  // namespace weir
