// The chain of operations that a step waits for from its start to its end, by action kind.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "plan/program/program.hpp"
#include "plan/words/units.hpp"
#include "traces/trace.hpp"

namespace weir {

struct CriticalPart {
  std::string kind;  // an action's, "host" before an action that had all it awaited, or "end"
  Nanoseconds time{0};
  int actions = 0;
};

struct CriticalPath {
  std::vector<OperationId> operations;  // from the first to the last
  std::vector<CriticalPart> parts;      // longest first; they sum to the step's time
};

// From the operation that ends last back to what it waited for last; of several the one before it
// on its lane. What follows the last operation is "end". Of a receive counts what the message takes
// after its send. Precondition: `trace` is of this program and holds every operation of step 0.
[[nodiscard]] CriticalPath critical_path(const Program& program, const Trace& trace);

}  // namespace weir
