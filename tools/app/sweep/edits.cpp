// Asks the exporter what it would change in the plan's own job.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/sweep/edits.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "plan/words/error.hpp"
#include "sim/explain/plan_changes.hpp"
#include "tools/jobs/megatron/patch/patch.hpp"

namespace weir::app {
namespace {

// Without edits and not of the job where it has none for them; then why, unless it has no lines.
Edits edits_of_job(const Plan& from, const ResolvedPlan& to) {
  if (from.job.lines.empty()) return {};
  // As if the job itself asked for that plan: what differs are the arguments to change.
  ResolvedPlan wanted = to;
  wanted.plan.job = from.job;
  try {
    const auto patch = patch_own_megatron_job(wanted);
    if (!patch) return {};
    Edits edits{.of_job = true, .not_carried = patch->remarks};
    for (const ArgumentChange& change : patch->changes)
      edits.all.push_back({change.name, change.before, change.after});
    return edits;
  } catch (const InputError& error) {
    Edits edits;  // it has no words for such a plan
    edits.not_carried.push_back({"job", error.what()});
    return edits;
  }
}

// Texts bare, all else as the file has it.
std::optional<std::string> shown(const Json& value) {
  if (value.is_null()) return std::nullopt;
  return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace

Edits edits_between(const Plan& from, const ResolvedPlan& to) {
  Edits edits = edits_of_job(from, to);
  if (edits.of_job) return edits;
  for (const PlanChange& change : step_changes(from, to.plan)) {
    edits.all.push_back(
        {change.key, shown(change.before), shown(change.after), change.role == KeyRole::chosen});
  }
  return edits;
}

ArgumentCount count_of(const Edits& edits) {
  ArgumentCount count{.of_job = edits.of_job};
  // A partition follows from what is chosen, and counts where it alone is another.
  const bool chosen = std::ranges::any_of(edits.all, &Edit::counts);
  for (const Edit& edit : edits.all) {
    if (chosen && !edit.counts) continue;
    // One that only one side has is added or removed.
    int& its = !edit.before ? count.added : !edit.after ? count.removed : count.changed;
    ++its;
  }
  return count;
}

std::vector<std::string> not_carried_lines(const Edits& edits) {
  std::vector<std::string> lines;
  for (const Remark& remark : edits.not_carried) {
    lines.push_back(edits.of_job ? fmt::format("Not carried: {}: {}", remark.name, remark.text)
                                 : "The job has no words for it: " + remark.text);
  }
  return lines;
}

}  // namespace weir::app
