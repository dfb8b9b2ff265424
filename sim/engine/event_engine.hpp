// The event engine: gives a program virtual time. Deterministic to the byte: ties break by (time,
// rank, sequence).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "costmodel/table/cost_table.hpp"
#include "plan/program/program.hpp"
#include "plan/words/units.hpp"
#include "traces/trace.hpp"

namespace weir {

// Virtual start and end of each operation.
struct Timing {
  PerOperation<std::int64_t> start_ns, end_ns;
  Nanoseconds makespan{0};  // end of the last operation
};

// Nothing can run any more: who waits for what, one line each.
struct Stuck {
  std::string report;
};

[[nodiscard]] std::variant<Timing, Stuck> simulate(const Program& program,
                                                   const OperationCosts& costs);

// The timing as a predicted trace of one step. `costs`: those it was made with; of an action that
// was slowed down, its rebuilding was too.
[[nodiscard]] Trace to_trace(const Program& program, const Timing& timing,
                             const OperationCosts& costs = {});

}  // namespace weir
