// The process this test program runs as: K of them are started, by mpirun, and all
// run the same tests in step. The leader judges.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/processes/process_run.hpp"
#include "tests/exec/tiny.hpp"

namespace weir {

[[nodiscard]] Processes& processes();  // of this program, opened by main

[[nodiscard]] RunResult run_here(const ResolvedPlan& loaded, const RunOptions& options);

}  // namespace weir
