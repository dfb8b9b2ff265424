// Counts what the exporter would change in the plan's own job.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/sweep/argument_count.hpp"

#include <optional>

#include "plan/words/error.hpp"
#include "tools/jobs/megatron/patch.hpp"

namespace weir::app {
namespace {

std::optional<ArgumentCount> job_arguments(const ResolvedPlan& from, const ResolvedPlan& to) {
  // A plan without a job's lines has no arguments to count.
  if (from.plan.job.lines.empty()) return std::nullopt;
  // As if the job itself asked for that plan: what differs are the arguments to change.
  ResolvedPlan wanted = to;
  wanted.plan.job = from.plan.job;
  try {
    const auto patch = patch_own_megatron_job(wanted);
    if (!patch) return std::nullopt;
    ArgumentCount count{.of_job = true};
    for (const ArgumentChange& change : patch->changes) {
      // An argument that only one side has was added or removed.
      int& its = !change.before ? count.added : !change.after ? count.removed : count.changed;
      ++its;
    }
    return count;
  } catch (const InputError&) {
    return std::nullopt;  // it has no words for such a plan
  }
}

}  // namespace

ArgumentCount arguments_between(const ResolvedPlan& from, const ResolvedPlan& to) {
  const auto count = job_arguments(from, to);
  return count ? *count : keys_between(from.plan, to.plan);
}

}  // namespace weir::app
