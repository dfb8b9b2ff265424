// `run`: executes a plan, in this process or as one of several.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/app/run/run_json.hpp"
#include "tools/app/run/run_request.hpp"

namespace weir::app {

[[nodiscard]] Fields fields(RunRequest& request);

// Throws as weir::run does; EndedTogether where a run of several processes ends before its end.
[[nodiscard]] RunResult run(const RunRequest& request, const Session& session);
// The signal that ended it before all its steps; 0: none did.
[[nodiscard]] inline int stopped_by(const RunResult& result) { return result.run.stopped_by; }
// Throws RunFailed where a file of it could not be written; the result is whole but for that.
void require_kept(const RunResult& result);
inline constexpr UseCase<RunRequest, RunResult> kRun{"run", "Execute a plan: real training steps",
                                                     &run};

}  // namespace weir::app
