// Lower bounds on the step time of a plan's work in any order (docs/theory.md 3.2).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "costmodel/table/cost_table.hpp"
#include "plan/program/program.hpp"
#include "plan/words/units.hpp"

namespace weir {

// No order of the same actions on the same ranks, with any number of receive slots, ends a step
// sooner. The larger of
//   the longest chain of data, messages and updates, and for each rank
//   head + all its work, and head + (F + R + B or I) + tail,
// where head is the earliest that any of its actions can start and tail the shortest way from the
// end of any of its F, R, B, I to the end of the step (gradients of earlier stages, their W
// excluded, and their optimizer).
[[nodiscard]] Nanoseconds step_lower_bound(const Program& program, const OperationCosts& costs);

}  // namespace weir
