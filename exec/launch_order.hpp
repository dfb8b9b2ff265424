// The order in which one thread launches the actions of all ranks: each after all that it waits for, and as the
// forecast would see them begin if F, I, W, R and the optimizer took a unit of time, B two, and messages none; of what
// begins at the same time messages go first, then lower ranks. The order is the program's alone, so every process of a
// run finds the same one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "plan/program.hpp"

namespace weir {

// Every operation once. Throws RunFailed, saying who waits for what, when the program can deadlock.
[[nodiscard]] std::vector<OperationId> launch_order(const Program& program);

}  // namespace weir
