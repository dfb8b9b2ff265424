// A plan in a line for people.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "plan/job/plan.hpp"

namespace weir {

// none, selective, full, stage, except-last (stage's) or layers; "full except-last".
[[nodiscard]] std::string to_text(const Recompute& recompute);

// "K2 M8 b1 1f1b full [4]": enough to tell plans of one model apart.
[[nodiscard]] std::string summary(const Plan& plan);

}  // namespace weir
