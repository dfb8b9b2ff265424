// From a schedule to a program, in pure steps (docs/design.md 5): place R, add sends and receives,
// add reductions and the optimizer, assign lanes, write the dependencies down. The proof of
// deadlock freedom (6) is plan/program/deadlock.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "plan/program/program.hpp"
#include "plan/schedule/schedule.hpp"

namespace weir {

enum class RecomputePlacement : std::uint8_t {
  early,  // GPipe: R does not wait for the gradient
  fused,  // R waits for the gradient, as if it were part of the backward
};

struct LoweringOptions {
  std::vector<bool> recompute;  // per global stage (replicas included); empty: none
  // except-last: micro-batch M-1 is not re-materialised, neither by R nor within its backward.
  bool keep_last_microbatch = false;
  RecomputePlacement placement = RecomputePlacement::early;
  std::int32_t slots = 2;  // receive slots an edge; 0: unlimited
  bool optimizer =
      true;  // add OPTIMIZER (and REDUCE_GRAD where stages have copies or tied weights)
  bool reduce_all =
      false;           // every stage reduces: devices outside the program hold the same weights
  bool clips = false;  // the update waits for the norm of all stages' gradients: every one reduces
  std::vector<std::vector<Stage>> tied;  // groups of stages that share a weight, each ascending
  std::vector<SkipRoute> skips{};        // ascending; of one stage a rank and no replicas
};

// Compute order of each rank with R placed directly before its B or I. Golden-testable step 1.
[[nodiscard]] Indexed<Rank, std::vector<Action>> place_recompute(const Schedule& schedule,
                                                                 const LoweringOptions& options);

// Precondition: validate(schedule) found nothing.
[[nodiscard]] Program lower(const Schedule& schedule, const LoweringOptions& options);

// The fewest receive slots an edge, from `at_least` (1 or more) up, with which the schedule cannot
// deadlock. Precondition: as above.
[[nodiscard]] std::int32_t fewest_slots(const Schedule& schedule, std::int32_t at_least,
                                        const std::vector<SkipRoute>& skips = {});

}  // namespace weir
