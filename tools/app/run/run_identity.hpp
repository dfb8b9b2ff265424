// What the processes of one run must all have been given.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/processes/agreement.hpp"
#include "exec/run/run_result.hpp"
#include "plan/job/resolve.hpp"

namespace weir::app {

// Plan, seed, steps, options, data, the weights to begin with and the build, long ones as hashes.
// Where the model's file lies, and where results go, may differ from host to host. Throws
// InputError for files that cannot be read.
[[nodiscard]] WhatIsRun what_is_run(const ResolvedPlan& loaded, const RunOptions& options);

}  // namespace weir::app
