// List scheduling, where a published schedule is a rule for choosing the next action rather than a
// formula for it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "plan/schedule/generators/generators.hpp"

namespace weir {

struct ListRule {
  struct Times {
    std::int64_t f = 1, i = 1, w = 1;  // assumed durations; B takes i + w
  };
  Times times;                   // of every stage
  Indexed<Stage, Times> stages;  // of each stage (of one replica) instead, where they differ
  bool split = true;             // I and W apart
  std::int32_t most_in_flight =
      0;  // stage-micro-batches a rank may hold (F begun, W or B not ended); 0: any
};

// Repeats: of all actions that may run next, take the one that can start earliest (ties by the
// rule, then by rank), at the assumed durations. W fills what would be idle. Micro-batches of a
// stage stay in order; replicas share them in halves. Returns a reason where the limit on what is
// in flight leaves nothing that may run.
[[nodiscard]] ScheduleOrReason list_schedule(std::string name, const ScheduleShape& shape,
                                             const ListRule& rule);

}  // namespace weir
