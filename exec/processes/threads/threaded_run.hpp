// A run of all that a plan takes in this one process: a thread for each rank of each replica and of
// each of the devices that divide its layers, K * T * D of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/device/backend.hpp"
#include "exec/run/run_result.hpp"
#include "plan/job/resolve.hpp"

namespace weir {

// As `run`, which it is for one pipeline, for timed waits and on a GPU; more pipelines on the CPU
// are run_as_process with threads for processes, to the same bits as between processes. Throws what
// they throw: where threads fail, the first one's error, of a run that failed with the thread's
// place.
[[nodiscard]] RunResult run_in_one_process(const ResolvedPlan& loaded, const RunOptions& options,
                                           const Backends& backends);

}  // namespace weir
