// Gives each plan that follows sequences' lengths once.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/space/followers.hpp"

#include <nlohmann/json.hpp>

#include "plan/job/plan_json.hpp"

namespace weir {
namespace {

// By the whole step, of all replicas as one.
std::string as_dealt(Plan plan) {
  plan.samples = static_cast<int>(plan.global_batch_size());
  plan.cp = plan.replicas();
  plan.dp = plan.microbatches = plan.micro_batch_size = 1;
  return plan_json(plan).dump();
}

}  // namespace

std::optional<Plan> Followers::of(const Plan& plan) {
  if (most_ == 0) return std::nullopt;
  Plan following = plan;
  following.lengths.dynamic_cp = most_;
  if (cannot_lie_in_rows(following) || !met_.insert(as_dealt(following)).second)
    return std::nullopt;
  return following;
}

}  // namespace weir
