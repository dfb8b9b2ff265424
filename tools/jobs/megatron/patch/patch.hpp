// A plan as changes to the script that it came from: the few arguments by which the user's own job
// becomes the plan, everything else of the script left as it is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/jobs/job/export.hpp"
#include "tools/jobs/megatron/patch/changes.hpp"

namespace weir {

struct Patch {
  std::vector<ArgumentChange> changes;  // sorted by name
  std::optional<int> devices_before;    // where the script says
  int devices = 0;                      // of the plan
  std::vector<Remark> remarks;          // what the changed script does otherwise than the plan
  std::vector<std::string> lines;       // all arguments of the changed script but its launcher's
  std::string text;                     // the script, edited where it stands
  std::string difference;               // from the user's, a unified diff; empty where none
  std::vector<Remark> not_edited;       // changes that have no place in its text
};

// Of a Megatron script. Only what the plan decides changes: degrees, stages, batch, schedule,
// re-materialisation and what devices share, with what Megatron needs beside it; learning rates and
// the like stay the script's, and so does an overlap that the plan has not. Throws InputError where
// the script cannot be read, trains another model than the plan's, or Megatron does not run the
// plan.
[[nodiscard]] Patch patch_megatron(const ResolvedPlan& wanted, const PatchedScript& script);

// The job that a plan was read from, changed to what the plan says now, the optimizer, the rate's
// course and the seed included. nullopt where the plan has no such job, or another model than its.
[[nodiscard]] std::optional<Patch> patch_own_megatron_job(const ResolvedPlan& plan,
                                                          const Allowed& allowed = {});

// The changed script as one of its own: with every argument that the user's has, those that no plan
// has a word for and those that nobody understands too.
[[nodiscard]] ExportedJob patched_megatron(const Patch& patch, const ResolvedPlan& plan,
                                           const ExportOptions& options);
// The user's own script, edited; `name` is its file's.
[[nodiscard]] ExportedJob edited_megatron(const Patch& patch, const std::string& name);

}  // namespace weir
