// Several schedules at the same sizes and times beside each other.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/app/schedule/schedule_source.hpp"
#include "tools/app/schedule/timed_schedule.hpp"

namespace weir::app {

struct ComparedSchedule {
  std::string name;
  std::string refused;                 // why there is none of these sizes; empty: there is
  std::optional<Schedule> schedule;    // none where it is refused
  std::optional<TimedSchedule> timed;  // none where it is refused, or deadlocks
  std::optional<int> fewest_slots;     // enough receive slots an edge, where transfers are buffered
  bool deadlocks = false;              // with the slots or the transfers that were asked for
};

struct SchedulesBeside {
  const std::vector<ScheduleChoice>& choices;
  ScheduleSource shape;  // but for the name; its v is taken where a schedule has a choice
  std::string transfers;
  std::optional<int> slots;                            // an edge; none: as many as each needs
  std::function<TimedSchedule(const Schedule&)> time;  // throws NoFeasiblePlan at a deadlock
};

// In the order of the choices. What a published schedule does not allow is told in its row. Throws
// UsageError for an unknown name, for a file of other sizes, and where all are refused; InputError
// for a file that is no schedule.
[[nodiscard]] std::vector<ComparedSchedule> beside_each_other(const SchedulesBeside& request);

// weir.schedule_comparison/1
[[nodiscard]] nlohmann::ordered_json to_json(const std::vector<ComparedSchedule>& schedules);
// Compute actions in time, rank by rank; null where there are more than are good to read.
[[nodiscard]] nlohmann::ordered_json timeline_json(const TimedSchedule& timed);

}  // namespace weir::app
