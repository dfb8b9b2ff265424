// From the clocks of a step to its spans.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "exec/rank/transport.hpp"
#include "plan/program/program.hpp"
#include "traces/trace.hpp"

namespace weir {

// Appends a step to the trace. `window` and the clock are on the run's clock, `origin_ns` is the
// trace's zero on it.
void append_step(Trace& trace, const Program& program, const StepClock& clock, StepWindow window,
                 std::int64_t origin_ns);

}  // namespace weir
