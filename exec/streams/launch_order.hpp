// The order in which one thread launches the actions of all ranks: each after all that it waits
// for, and as the forecast would see them begin if F, I, W, R and the optimizer took a unit of
// time, B two, and messages none; of what begins at the same time messages go first, then
// reductions, then lower ranks.
//
// The order is the program's alone, so processes that launch their parts of it agree. Each receive
// stands directly behind its send, and behind a rank's last reduction only its optimizers. So the
// parts could even be done one operation after the other, each end of a message and each member of
// an exchange waiting for the others: of all that is not done the first in the order never waits
// for a later one. How few streams a device really has does not matter.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "plan/program/program.hpp"

namespace weir {

// Every operation once. Throws RunFailed, saying who waits for what, when the program can deadlock.
[[nodiscard]] std::vector<OperationId> launch_order(const Program& program);

}  // namespace weir
