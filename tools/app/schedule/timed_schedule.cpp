// SPDX-License-Identifier: Apache-2.0
#include "tools/app/schedule/timed_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <variant>
#include <vector>

#include "plan/program/deadlock.hpp"
#include "plan/program/lower.hpp"
#include "plan/words/error.hpp"
#include "sim/bounds.hpp"
#include "sim/engine/event_engine.hpp"

namespace weir {

TimedSchedule time_schedule(const Schedule& schedule, const CostTable& table,
                            TransferMode transfers) {
  if (const auto reason = cannot_block(schedule, transfers)) throw UsageError(*reason);
  // As closed forms assume: slots without limit, no optimizer.
  LoweringOptions lowering;
  lowering.slots = 0;
  lowering.optimizer = false;
  TimedSchedule timed{block_transfers(lower(schedule, lowering), transfers), {}, {}};
  const OperationCosts costs = expand(timed.program, table);
  auto outcome = simulate(timed.program, costs);
  // With blocking transfers an order may have no way through: that is an answer.
  if (std::holds_alternative<Stuck>(outcome)) {
    throw NoFeasiblePlan(fmt::format("deadlocks with {} transfers:\n{}", to_string(transfers),
                                     describe_deadlock(timed.program)));
  }
  timed.trace = to_trace(timed.program, std::get<Timing>(outcome));
  Forecast& f = timed.forecast;
  f.metrics = step_metrics(timed.program, timed.trace);
  f.step_time = to_seconds(f.metrics.step_time);
  f.lower_bound = to_seconds(step_lower_bound(timed.program, costs));
  f.peak_in_flight = peak_in_flight(schedule);
  return timed;
}

std::optional<std::string> cannot_block(const Schedule& schedule, TransferMode transfers) {
  if (transfers == TransferMode::buffered || schedule.shape.shards() == 0) return std::nullopt;
  return fmt::format("--transfers {}: {} divides the vocabulary: expected buffered",
                     to_string(transfers), schedule.name);
}

double most_in_flight(const ScheduleShape& shape, int stage_microbatches) {
  return double(stage_microbatches) * shape.ranks / shape.stages / shape.segments;
}

double most_in_flight(const Schedule& schedule) {
  const std::vector<std::int32_t> peaks = peak_in_flight(schedule);
  return most_in_flight(schedule.shape, *std::ranges::max_element(peaks));
}

}  // namespace weir
