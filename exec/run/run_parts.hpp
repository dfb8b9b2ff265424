// What a run of threads and a run of processes do alike.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "exec/device/backend.hpp"
#include "exec/run/run_result.hpp"
#include "exec/training/batches.hpp"
#include "plan/job/resolve.hpp"
#include "plan/program/program.hpp"

namespace weir {

// The run's clock: steady_clock, which all processes of one host share.
[[nodiscard]] std::int64_t now_ns();

// Precondition: require_trainable. Throws InputError.
[[nodiscard]] Batches open_batches(const ResolvedPlan& loaded, const RunOptions& options);

// Throws RunFailed unless there is a duration for every operation.
void require_durations(const Program& program, const RunOptions& options);

// Operations of compute lanes; of one rank where it is given.
[[nodiscard]] std::int64_t compute_actions(const Program& program,
                                           std::optional<Rank> of = std::nullopt);

// Median time of the steps after `warmup`; 0 where there are none.
[[nodiscard]] Seconds median_step(const std::vector<StepResult>& steps, int warmup);

}  // namespace weir
