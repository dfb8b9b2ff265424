// What a command says of its own memory before it takes gigabytes: one line, from 1 GiB on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "plan/job/resolve.hpp"
#include "tools/app/shared/session.hpp"

namespace weir::app {

// A schedule of so many stages and micro-batches, with its program and times.
void say_need_of_schedule(std::int64_t stages, std::int64_t microbatches, const Session& session);

// A run in this process: weights, gradients and optimizer state of all ranks, and the spans of
// `traced_steps` with their text; activations come on top.
void say_need_of_run(const ResolvedPlan& plan, std::int64_t traced_steps, bool trains,
                     const Session& session);

}  // namespace weir::app
