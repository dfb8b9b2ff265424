// What a measured step really took, as costs: fed back into the simulator they must give its
// makespan again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "costmodel/table/cost_table.hpp"
#include "plan/program/program.hpp"
#include "traces/trace.hpp"

namespace weir {

enum class ReplayGaps : std::uint8_t {
  keep,  // an operation's gap is its measured start minus when everything it awaited was there
  drop,
};

// Durations (and gaps) of step `step`. Precondition: the trace is of this program.
[[nodiscard]] OperationCosts replay_costs(const Program& program, const Trace& measured,
                                          std::int32_t step, ReplayGaps gaps);

}  // namespace weir
