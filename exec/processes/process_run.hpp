// A run in which every rank is a process of its own: this process walks one rank of the plan, and
// the leader gathers what the run returns.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/processes/processes.hpp"
#include "exec/run/run_result.hpp"
#include "plan/job/resolve.hpp"

namespace weir {

// All processes call it with the same plan and options; there are K * D of them. The leader's
// result is whole: losses over all replicas, times by the last process at each barrier, replica 0's
// trace on the leader's clock, peak memory of each rank (the most of its replicas), the hash. The
// others' results are empty. Throws what `run` throws, UsageError where the number of processes is
// another, and Transport::Stopped where another process failed; either way `processes.conclude` has
// been called and nothing is on its way any more.
[[nodiscard]] RunResult run_as_process(const ResolvedPlan& loaded, const RunOptions& options,
                                       const Backends& backends, Processes& processes,
                                       const ProcessLinks& links);

}  // namespace weir
