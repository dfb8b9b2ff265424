// How little a candidate's fullest rank can hold: what its stages hold from step to step, and the
// micro-batches that the schedule's order keeps in flight. Times and messages on their way are not
// looked at; the forecast of a candidate has all of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "costmodel/table/layer_costs.hpp"
#include "plan/job/cluster.hpp"
#include "plan/schedule/schedule.hpp"

namespace weir {

// Of one stage, bytes.
struct StageHeld {
  std::int64_t always = 0;  // weights, gradients, optimizer state
  // Of a micro-batch from its F to the end of its B, at least; or of its W, where it has an I.
  std::int64_t kept = 0, kept_split = 0;
  std::int64_t forward = 0;  // of one in its F, at the worst moment
};
[[nodiscard]] std::vector<StageHeld> stages_held(const Plan& plan, const ModelPart& part,
                                                 std::span<const StagePart> stages,
                                                 const Cluster& cluster);

// Of a schedule, what decides how many micro-batches a rank keeps.
struct ShapeFacts {
  ScheduleShape shape;
  std::vector<std::int32_t> in_flight;  // peak_in_flight()
  bool splits_backward = true;
};

// A forecast's peak_memory() is no less.
[[nodiscard]] Bytes memory_bound(std::span<const StageHeld> stages, const ShapeFacts& facts,
                                 const LayerCosts& known, const Cluster& cluster);

}  // namespace weir
