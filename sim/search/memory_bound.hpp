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

// Bytes that all ranks together hold from step to step at least, whatever the stages: of the plan's
// degrees, ZeRO, number format and optimizer.
[[nodiscard]] std::int64_t all_held(const Plan& plan, const ModelPart& part,
                                    const Cluster& cluster);

// From the tensors of a rank to what its device holds.
struct DeviceShare {
  double process = 0;   // bytes
  double reserved = 1;  // by the allocator, for each byte of the tensors
  double factor = 1;    // of costs anchored to measured memory
  [[nodiscard]] Bytes of(std::int64_t tensors) const;
};
[[nodiscard]] DeviceShare device_share(const Costs& costs, const Cluster& cluster);

// Of one stage, bytes.
struct StageHeld {
  std::int64_t always = 0;  // weights, gradients, optimizer state
  // Of a micro-batch from its F to the end of its B, at least; or of its W, where it has an I.
  std::int64_t kept = 0, kept_split = 0;
  std::int64_t forward = 0;  // of one in its F, at the worst moment
};
[[nodiscard]] std::vector<StageHeld> stages_held(const Plan& plan, const LayerCosts& known,
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
                                 const DeviceShare& device);

}  // namespace weir
