// Two clocks of a worker. Its core clock stands still while the worker waits or other work has its
// core, so it measures what the worker itself did even on a machine that is shared; the wall clock
// sees everything.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "plan/words/units.hpp"

namespace weir::cpu {

// Of the calling thread.
[[nodiscard]] Seconds core_time();
// How often the calling thread lost its core to others while it wanted to run.
[[nodiscard]] std::int64_t preemptions();

}  // namespace weir::cpu
