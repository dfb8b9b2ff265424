// `compare`: a prediction with a measurement, what two plans differ in and what that costs, or a
// plan with the log or the timeline of its job.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "sim/forecast/forecast.hpp"
#include "tools/app/compare/compare_timeline.hpp"
#include "tools/app/machine/machine.hpp"
#include "tools/app/shared/field.hpp"
#include "tools/app/shared/picture.hpp"
#include "traces/compare.hpp"
#include "traces/job_log.hpp"

namespace weir::app {

struct CompareRequest {
  // A predicted and a measured trace, two plans, a plan and a log, or a plan or a folder of
  // timelines and a folder of timelines.
  TraceSource first, second;
  std::optional<std::int64_t> priced_by;         // the first folder's iteration that forecasts
  CostsSource costs;                             // to forecast plans by
  std::optional<std::filesystem::path> cluster;  // of plans; none: this machine
  StackChoice stack;
  std::optional<int> gpus;
  PictureOptions picture;
  std::optional<std::filesystem::path> perfetto, output;
};
[[nodiscard]] Fields fields(CompareRequest& request);

// A plan's forecast with what its job printed.
struct LogComparison {
  JobLogSummary log;
  Seconds measured{0};         // the median step
  Seconds lower{0}, upper{0};  // its quartiles
};

// The second plan's step over the first's, and within what it lies: errors that two plans of one
// job share do not touch it.
struct StepRatio {
  double ratio = 1;
  double low = 1, high = 1, nominal = 0;
};

struct CompareResult {
  std::optional<Comparison> traces;  // none: of plans
  std::optional<LogComparison> log;  // then the first of plans and forecasts is the plan's
  std::optional<TimelineComparison> timeline;  // likewise, where a plan forecast it
  std::array<ResolvedPlan, 2> plans;
  std::array<Forecast, 2> forecasts;
  std::optional<StepRatio> ratio;  // of two plans of one job by built-in costs of a known GPU
};

[[nodiscard]] CompareResult compare(const CompareRequest& request, const Session& session);
// weir.comparison/1, weir.plan_comparison/1, weir.log_comparison/1 or weir.timeline_comparison/1
[[nodiscard]] nlohmann::ordered_json to_json(const CompareResult& result);

inline constexpr UseCase<CompareRequest, CompareResult> kCompare{
    "compare",
    "A predicted trace with a measured one, a plan with a plan, or a plan with a job's log or "
    "timeline",
    &compare};

}  // namespace weir::app
