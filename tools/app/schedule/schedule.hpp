// `schedule`: draws a schedule, proves that it cannot deadlock, times it with given durations,
// converts it to CSV; holds several beside each other; lists those there are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/app/schedule/schedule_comparison.hpp"
#include "tools/app/schedule/schedule_proof.hpp"
#include "tools/app/shared/field.hpp"
#include "tools/app/shared/picture.hpp"

namespace weir::app {

struct ScheduleRequest {
  std::vector<ScheduleChoice> names;  // more than one: beside each other
  int pp = 4;                         // K
  std::optional<int> vpp;             // v; the schedule's own default
  int microbatches = 8;               // M
  std::optional<int> slices;          // of a sequence; likewise
  std::optional<int> slots;
  std::string transfers = "buffered", uniform, csv_format = "compute_only", grid;
  std::optional<std::filesystem::path> times, csv;
  PictureOptions picture;
  ScheduleChoice beside = "";  // drawn under it
  bool no_title = false, allow_reordered = false, prove = false, list = false;
  // Someone asked a proof to end: it does so after the (K, M) it is at, and keeps those it has.
  std::function<int()> stopping;
};
[[nodiscard]] Fields fields(ScheduleRequest& request);

struct ScheduleResult {
  std::vector<ComparedSchedule> schedules;  // none of a list or a proof
  std::string csv;                          // for those who asked for it on their screen
  std::optional<GridProof> proof;
};

[[nodiscard]] ScheduleResult schedule(const ScheduleRequest& request, const Session& session);
// weir.forecast/1, weir.schedule_comparison/1, weir.schedules/1 or weir.proof/1
[[nodiscard]] nlohmann::ordered_json to_json(const ScheduleResult& result);
// The signal that ended a proof before its end; 0: none did.
[[nodiscard]] inline int stopped_by(const ScheduleResult& result) {
  return result.proof ? result.proof->stopped_by : 0;
}
// Nothing where the CSV is what was asked for.
[[nodiscard]] std::string json_text(const ScheduleResult& result);

inline constexpr UseCase<ScheduleRequest, ScheduleResult> kSchedule{
    "schedule", "Draw, prove, time and convert a schedule", &schedule};

}  // namespace weir::app
