// What of a job must be edited for it to become another plan.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/explain/first_changes.hpp"
#include "tools/jobs/job/job.hpp"

namespace weir::app {

struct Edit {
  std::string name;                   // of an argument without dashes, or of a key of the plan
  std::optional<std::string> before;  // "" of a flag that is set; none: it is not there
  std::optional<std::string> after;
  bool counts = true;  // false: it follows from the others
};

struct Edits {
  std::vector<Edit> all;
  bool of_job = false;  // of the arguments of the plan's own job; else of keys of its file
  // What the changed job does otherwise than the plan; of keys, why there are no arguments.
  std::vector<Remark> not_carried = {};
};

// Of the Megatron job that `from` was read from, where it keeps one and Megatron has words for
// `to`; else of the plan's file, those keys that change how a step is run.
[[nodiscard]] Edits edits_between(const Plan& from, const ResolvedPlan& to);

[[nodiscard]] ArgumentCount count_of(const Edits& edits);

// What is not carried, a line each.
[[nodiscard]] std::vector<std::string> not_carried_lines(const Edits& edits);

}  // namespace weir::app
