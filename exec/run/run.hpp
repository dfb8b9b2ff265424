// Runs a plan for real: training steps on a backend, with a measured trace.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/run/run_result.hpp"
#include "plan/job/resolve.hpp"

namespace weir {

// Throws RunFailed, MissingComponent (backend not built or no device), InputError (data file, a
// model that cannot train), UsageError (graphs where nothing is launched; kernels anywhere but on
// cuda, with graphs or without a trace).
[[nodiscard]] RunResult run(const ResolvedPlan& loaded, const RunOptions& options,
                            const Backends& backends);

}  // namespace weir
