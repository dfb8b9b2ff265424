// A schedule timed by given durations, without a model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "costmodel/table/cost_table.hpp"
#include "plan/program/blocking.hpp"
#include "plan/program/program.hpp"
#include "plan/schedule/schedule.hpp"
#include "sim/forecast/forecast.hpp"
#include "traces/trace.hpp"

namespace weir {

struct TimedSchedule {
  Program program;
  Trace trace;
  Forecast forecast;  // rates and memory unknown
};

// Unlimited receive slots, no optimizer. Precondition: the schedule is valid. Throws NoFeasiblePlan
// where it deadlocks with these transfers, UsageError where cannot_block.
[[nodiscard]] TimedSchedule time_schedule(const Schedule& schedule, const CostTable& table,
                                          TransferMode transfers);
// Why transfers of a schedule cannot be timed, or proved, to block so; nullopt: they can.
[[nodiscard]] std::optional<std::string> cannot_block(const Schedule& schedule,
                                                      TransferMode transfers);

// The most that a rank holds at once, in micro-batches of a whole rank: each of its v stages holds
// 1/v of one, each slice of a sequence its share of that.
[[nodiscard]] double most_in_flight(const ScheduleShape& shape, int stage_microbatches);
[[nodiscard]] double most_in_flight(const Schedule& schedule);

}  // namespace weir
