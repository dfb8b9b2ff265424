// A forecast with the timeline that a trainer dumped, action by action: of a plan, or of an
// iteration of the same or another run of the same schedule.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "plan/job/resolve.hpp"
#include "sim/forecast/forecast.hpp"
#include "tools/app/shared/session.hpp"
#include "traces/interruptions.hpp"
#include "traces/starts.hpp"
#include "traces/timeline.hpp"

namespace weir::app {

struct TimelineRankMemory {
  Rank rank;
  std::int32_t peak_in_flight = 0;
  Bytes measured;  // the most that an iteration compared says
  // A plan's, or a line through two ranks of the iteration that prices (fit_in_flight); none where
  // that has no line (fewer than four ranks).
  std::optional<Bytes> predicted;
};

struct TimelineComparison {
  std::optional<std::int64_t> priced_by;  // iteration; none: a plan's forecast
  std::vector<std::int64_t> iterations;   // that were compared
  StartComparison starts;                 // medians over the iterations
  StartErrors errors;                     // of every iteration's own starts
  std::vector<Interruption> interrupted;  // `step` is a position in `iterations`
  // The same without iterations that were interrupted; none where all were.
  std::optional<StartErrors> uninterrupted;
  std::vector<TimelineRankMemory> memory;  // by rank
  Trace predicted, measured;               // for pictures
};

// A folder's iterations against a forecast from iteration `priced_by` of `first` (none: its last
// but one, or its only one). What prices it is not compared with itself, and an iteration 1 only
// where there is no other: it is warm-up. Throws InputError: another order of actions.
[[nodiscard]] TimelineComparison compare_timelines(const std::filesystem::path& first,
                                                   const std::filesystem::path& second,
                                                   std::optional<std::int64_t> priced_by);
// The same against a plan's forecast. Throws InputError: other ranks, stages or micro-batches, or
// stages on other ranks.
[[nodiscard]] TimelineComparison compare_with_timeline(const ResolvedPlan& plan,
                                                       const ForecastResult& forecast,
                                                       const std::filesystem::path& folder);

[[nodiscard]] nlohmann::ordered_json to_json(const TimelineComparison& comparison);

}  // namespace weir::app
