// Of a Megatron job's arguments those that a plan has otherwise.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "tools/jobs/job/export.hpp"
#include "tools/jobs/megatron/patch/changes.hpp"

namespace weir {

// How much of a job a plan changes.
enum class PatchScope : std::uint8_t {
  run,      // degrees, stages, batch, schedule, re-materialisation and what devices share
  training  // the optimizer, the rate's course and the seed too
};

// The job's arguments, the plan that they start, the plan that they shall, and what of it.
struct PatchedJob {
  const Job& job;
  const ResolvedPlan& is;
  const ResolvedPlan& wanted;
  PatchScope scope = PatchScope::run;
  Allowed allowed = {};
};

// Sorted by name; remarks on what stays or goes for another reason. Throws InputError where the
// plan has no such arguments.
[[nodiscard]] std::vector<ArgumentChange> wanted_changes(const PatchedJob& patched,
                                                         std::vector<Remark>& remarks);

}  // namespace weir
