// Holds a changed plan to the model, the cluster and the schedule.
// SPDX-License-Identifier: Apache-2.0
#include "sim/explain/checked_changes.hpp"

#include <fmt/format.h>

#include <utility>
#include <variant>

#include "costmodel/links/expert_overlap.hpp"
#include "plan/job/direct_skips.hpp"
#include "plan/job/recompute.hpp"
#include "plan/program/lower.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "sim/search/partitions/balance.hpp"
#include "sim/search/partitions/kept_together.hpp"
#include "sim/search/space/legality.hpp"

namespace weir {
namespace {

// Its blocks keep nothing, so nothing is left to offload.
bool rebuilds_stages(const Plan& of) { return of.recompute.mode == RecomputeMode::stage; }

}  // namespace

std::vector<int> CheckedChanges::balanced(const Plan& of) const {
  return balanced_boundaries(model_of_stages(base_.model, of), of, costs_, cluster_);
}

void CheckedChanges::add(std::string choice, std::string to, Plan changed) {
  // What the changed plan cannot have goes with the change: no trainer would take the two.
  if (why_experts_wait(changed) && !why_experts_wait(plan())) changed.overlap_experts = false;
  if (rebuilds_stages(changed) && !rebuilds_stages(plan())) changed.offload_activations = 0;
  // A share of what rebuilt blocks keep is of their inputs, and of others' all.
  if (rebuilds_every_block(plan().recompute) && !rebuilds_every_block(changed.recompute))
    changed.offload_activations = 0;
  Change change{std::move(choice), std::move(to), std::move(changed), {}, {}};
  if (auto reason = refusal(change.plan)) change.refused = std::move(*reason);
  changes_.push_back(std::move(change));
}

// Why the plan cannot be; otherwise its receive slots and boundaries are what it needs.
std::optional<std::string> CheckedChanges::refusal(Plan& changed) const {
  if (const auto misfit = cannot_divide(base_.model, changed))
    return misfit->key + ": " + misfit->reason;
  const Model staged = model_of_stages(base_.model, changed);
  const auto layers = static_cast<int>(staged.layers.size());
  if (changed.stages() > layers && !cluster_.stack.empty_stages)
    return fmt::format("K*v = {} is above the {} layers", changed.stages(), layers);
  // Stages that stay as they are may be the job's own.
  if (changed.stages() != plan().stages()) {
    if (auto reason = KeptTogether(staged, cluster_.stack).too_many(changed.stages()))
      return reason;
  }
  if (!of_file()) {
    const auto made = make_schedule(
        changed.schedule, {changed.pp, changed.vpp, changed.microbatches, changed.slices});
    if (const auto* reason = std::get_if<std::string>(&made)) return *reason;
    const auto& schedule = std::get<Schedule>(made);
    // Another order may need more slots than the plan has, or it deadlocks.
    if (changed.slots > 0) changed.slots = fewest_slots(schedule, changed.slots);
  }
  // On several kinds of nodes other stages stand on the faster ones where the schedule is
  // another.
  const bool elsewhere = cluster_.kinds() > 1 && changed.schedule != plan().schedule;
  // Without the head the last stage has room for other layers.
  const bool other_head =
      divides_vocabulary(changed.schedule) != divides_vocabulary(plan().schedule);
  if (elsewhere || other_head || changed.stages() != plan().stages())
    changed.boundaries = balanced(changed);
  // After the boundaries: where skips go follows from them.
  return goes_directly(changed) ? refusal_of_skips(changed) : std::nullopt;
}

// Skips have edges of their own, with as many slots.
std::optional<std::string> CheckedChanges::refusal_of_skips(Plan& changed) const {
  const Schedule schedule =
      of_file()
          ? base_.schedule
          : std::get<Schedule>(make_schedule(
                changed.schedule, {changed.pp, changed.vpp, changed.microbatches, changed.slices}));
  if (const auto misfit = cannot_go_directly(base_.model, changed, schedule.shape))
    return misfit->key + ": " + misfit->reason;
  if (changed.slots > 0) {
    changed.slots =
        fewest_slots(schedule, changed.slots, skip_routes(base_.model, changed.boundaries));
  }
  return std::nullopt;
}

void CheckedChanges::add_boundaries() {
  if (plan().stages() == 1 || plan().stages() > staged_layers(base_.model)) return;
  Plan changed = plan();
  changed.boundaries = balanced(changed);
  if (changed.boundaries == plan().boundaries) return;
  add("boundaries", fmt::format("balanced: {}", fmt::join(changed.boundaries, ",")), changed);
}

}  // namespace weir
