// A plan as changes to the script that it came from: the few arguments by which the user's own job
// becomes the plan, everything else of the script left as it is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/jobs/job/export.hpp"
#include "tools/jobs/job/job.hpp"

namespace weir {

struct ArgumentChange {
  std::string name;                   // without dashes
  std::optional<std::string> before;  // as the script has it, "" for a flag; nullopt: it has none
  std::optional<std::string> after;   // nullopt: to be removed
};

struct Patch {
  std::vector<ArgumentChange> changes;  // sorted by name
  std::optional<int> devices_before;    // where the script says
  int devices = 0;                      // of the plan
  std::vector<Remark> remarks;          // what the changed script does otherwise than the plan
  std::vector<std::string> lines;       // all arguments of the changed script but its launcher's
};

// Of a Megatron script, whose job `options` complete. Only what the plan decides changes: degrees,
// stages, batch, schedule, re-materialisation and what devices share; learning rates and the like
// stay the script's. Throws InputError where the script cannot be read, or trains another model
// than the plan's.
[[nodiscard]] Patch patch_megatron(const ResolvedPlan& wanted, const std::string& script,
                                   const std::string& file, const JobOptions& options);

// The job that a plan was read from, changed to what the plan says now, the optimizer, the rate's
// course and the seed included. nullopt where the plan has no such job, or another model than its.
[[nodiscard]] std::optional<Patch> patch_own_megatron_job(const ResolvedPlan& plan);

// The changed script as one of its own: with every argument that the user's has, those that no plan
// has a word for and those that nobody understands too.
[[nodiscard]] ExportedJob patched_megatron(const Patch& patch, const Plan& plan,
                                           const ExportOptions& options);

}  // namespace weir
