// Plans resolved from a model and a schedule at hand, with programs that others may have made
// already. `derive` and `with_boundaries` of plan/job/resolve are here too.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "plan/job/resolve.hpp"

namespace weir {

// What lower() makes of a schedule and its options, or an equal program from elsewhere.
using Lowered = std::function<Program(const Schedule&, const LoweringOptions&)>;

// As derive() of plan/job/resolve, by whose precondition it stands.
[[nodiscard]] ResolvedPlan derive(Plan plan, Model model, Schedule schedule,
                                  std::shared_ptr<const ModelPart> part, const Lowered& lowered);

}  // namespace weir
