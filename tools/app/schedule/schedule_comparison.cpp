// Rows of a comparison, and their JSON.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/schedule/schedule_comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "plan/program/blocking.hpp"
#include "plan/program/lower.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/words/error.hpp"

namespace weir::app {
namespace {

using Json = nlohmann::ordered_json;

// The most compute actions that a timeline in JSON has: some 8 MB of text.
constexpr std::size_t kMostTimed = std::size_t{1} << 16;

// The schedule; none where a published one is not made for these sizes, and its row says so.
std::optional<Schedule> obtain(const ScheduleChoice& choice, ScheduleSource shape,
                               ComparedSchedule& row) {
  if (const auto only = only_chunks(choice)) shape.chunks = only;
  const Generator* generator = find_generator(row.name);
  if (generator == nullptr) return obtain_schedule(choice, shape);
  if (generator->default_slices == 1) shape.slices.reset();
  try {
    return obtain_schedule(choice, shape);
  } catch (const UsageError& why) {
    row.refused = why.what();
    return std::nullopt;
  }
}

ComparedSchedule compared(const ScheduleChoice& choice, const SchedulesBeside& r) {
  ComparedSchedule row;
  row.name = name_of(choice);
  row.schedule = obtain(choice, r.shape, row);
  if (!row.schedule) return row;
  const ScheduleShape& has = row.schedule->shape;
  if (has.ranks != r.shape.ranks || has.microbatches != r.shape.microbatches)
    throw UsageError(fmt::format("{} has K = {}, M = {} and cannot stand beside K = {}, M = {}",
                                 row.name, has.ranks, has.microbatches, r.shape.ranks,
                                 r.shape.microbatches));
  if (const auto mode = parse_transfer_mode(r.transfers)) {
    if (auto reason = cannot_block(*row.schedule, *mode)) {
      row.refused = *std::move(reason);
      row.schedule.reset();
      return row;
    }
  }
  if (r.transfers == to_string(TransferMode::buffered)) {
    row.fewest_slots = fewest_slots(*row.schedule, 1);
    // No slots asked for: unlimited ones. More slots never make a deadlock.
    row.deadlocks = r.slots.value_or(0) > 0 && *r.slots < *row.fewest_slots;
  }
  try {
    row.timed = r.time(*row.schedule);
  } catch (const NoFeasiblePlan&) {
    row.deadlocks = true;
  }
  return row;
}

Json row_json(const ComparedSchedule& row) {
  Json json{{"name", row.name}};
  if (!row.schedule) {
    json["refused"] = row.refused;
    return json;
  }
  const ScheduleShape& shape = row.schedule->shape;
  json["vpp"] = shape.stages / shape.ranks;
  json["slices"] = shape.segments;
  json["deadlock_free"] = !row.deadlocks;
  json["fewest_slots"] = row.fewest_slots ? Json(*row.fewest_slots) : Json();
  json["in_flight"] = most_in_flight(*row.schedule);
  if (!row.timed) return json;
  const Forecast& f = row.timed->forecast;
  json["step_time_s"] = f.step_time.count();
  json["lower_bound_s"] = f.lower_bound.count();
  json["bubble_fraction"] = f.metrics.bubble_fraction;
  json["bubble_fraction_span"] = f.metrics.bubble_fraction_span;
  json["timeline"] = timeline_json(*row.timed);
  return json;
}

}  // namespace

std::vector<ComparedSchedule> beside_each_other(const SchedulesBeside& request) {
  std::vector<ComparedSchedule> rows;
  for (const ScheduleChoice& choice : request.choices) rows.push_back(compared(choice, request));
  const bool none =
      std::ranges::none_of(rows, [](const auto& row) { return row.timed.has_value(); });
  if (!none) return rows;
  if (!rows.front().refused.empty()) throw UsageError(rows.front().refused);
  throw NoFeasiblePlan(
      fmt::format("{} deadlocks with {} transfers", rows.front().name, request.transfers));
}

Json timeline_json(const TimedSchedule& timed) {
  Json actions = Json::array();
  for (const Span& span : timed.trace.spans) {
    if (span.lane != LaneKind::compute) continue;
    if (actions.size() == kMostTimed) return nullptr;
    actions.push_back({{"rank", span.rank.value},
                       {"action", to_string(span.action)},
                       {"start_s", to_seconds(span.start).count()},
                       {"end_s", to_seconds(span.end).count()}});
  }
  return actions;
}

Json to_json(const std::vector<ComparedSchedule>& schedules) {
  Json json{{"schema", "weir.schedule_comparison/1"}};
  for (const ComparedSchedule& row : schedules) {
    if (!row.schedule) continue;
    json["pp"] = row.schedule->shape.ranks;
    json["microbatches"] = row.schedule->shape.microbatches;
    break;
  }
  json["schedules"] = Json::array();
  for (const ComparedSchedule& row : schedules) json["schedules"].push_back(row_json(row));
  return json;
}

}  // namespace weir::app
