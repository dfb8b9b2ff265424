// What a run leaves behind: what is said of it, its picture, its record and its trace.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/app/run/run_request.hpp"
#include "traces/disturbance.hpp"

namespace weir::app {

// Of the process that leads, with what disturbed the run while it ran.
void report(RunResult& result, const RunRequest& request, Disturbance disturbance,
            const Session& session);

}  // namespace weir::app
