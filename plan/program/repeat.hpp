// Several steps of a program as one, without a barrier between them: each rank goes on with the
// next step as soon as its own update is done.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/program/program.hpp"

namespace weir {

// Lanes hold their operations `steps` times in a row; operation o of step s is first + s * (last -
// first) + (o - first) for its lane's [first, last). Receive slots are handed on from one step to
// the next. Precondition: steps >= 1.
[[nodiscard]] Program repeat(const Program& program, int steps);

}  // namespace weir
