// Skips that go directly from the stage that makes them to the one that takes them, as messages of
// their own past the stages between (the portals of Kim et al., "torchgpipe", arXiv 2004.09910):
// which there are, and what of each row goes which way. For layers 0..5 in stages
// [0][1][2 3][4 5], whose stashes are s0 (of layer 0, for 5) and s1 (of 1, for 3):
//
//   row behind stage 0   [x1 | s0]     x1 to stage 1, s0 to stage 3
//   row behind stage 1   [x2 | s1]     to stage 2, which takes s1
//   row behind stage 2   [y1]          to stage 3
//   row before stage 3   [y1 | s0]     from stages 2 and 0
//
// What the next stage takes itself goes with its own input. The latest made is taken first, so what
// goes to one stage lies together in the row, the nearest stage's in front, and a stage that takes
// some of a row has made nothing that leaves it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "plan/job/plan.hpp"
#include "plan/job/stage_part.hpp"
#include "plan/model/model.hpp"
#include "plan/model/split.hpp"
#include "plan/program/program.hpp"
#include "plan/schedule/schedule.hpp"

namespace weir {

[[nodiscard]] inline bool goes_directly(const Plan& plan) {
  return plan.skips == SkipTransport::direct;
}

// Why skips cannot go directly in a plan that asks for it; nullopt: they can, or need not.
[[nodiscard]] std::optional<Misfit> cannot_go_directly(const Model& model, const Plan& plan,
                                                       const ScheduleShape& shape);

// Precondition of all: they can.
[[nodiscard]] std::vector<SkipRoute> skip_routes(const Model& model,
                                                 const std::vector<int>& boundaries);
// The model whose layers do not hand on what passes their stage by.
[[nodiscard]] Model staged_model(const Model& model, const std::vector<int>& boundaries);
// What crosses each stage's ends, and of it what goes directly.
void put_rows(const Model& model, const Plan& plan, std::vector<StagePart>& stages);

}  // namespace weir
