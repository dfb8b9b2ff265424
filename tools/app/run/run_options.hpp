// What a run was asked, checked and made the executor's options, and what is said before it begins.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/run/run.hpp"
#include "plan/job/resolve.hpp"
#include "tools/app/run/run_request.hpp"

namespace weir::app {

// Whoever leads says what the run will need and do, and follows its steps; the other processes of
// it are silent. `session` must outlive the options. Throws UsageError for what contradicts itself.
[[nodiscard]] RunOptions run_options(const RunRequest& request, const ResolvedPlan& loaded,
                                     const Session& session, bool leads);

}  // namespace weir::app
