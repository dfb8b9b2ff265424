// A plan in a line for people.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "plan/job/plan.hpp"

namespace weir {

// none, selective, full, stage, except-last (stage's) or layers; "full except-last".
[[nodiscard]] std::string to_text(const Recompute& recompute);

// "K2 M8 b1 1f1b full [4]": enough to tell plans of one model apart.
[[nodiscard]] std::string summary(const Plan& plan);

// What the letters of such names are, of those that are in any of them, in a line for who meets the
// first of them: "K ranks of the pipeline, M micro-batches a step; then the schedule and ...".
[[nodiscard]] std::string legend_of_summaries(const std::vector<std::string>& names);

}  // namespace weir
