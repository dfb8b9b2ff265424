// The steps of a trace as those of a log.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/compare/measured_trace.hpp"

#include <utility>
#include <vector>

#include "plan/text/strict_json.hpp"
#include "plan/words/error.hpp"
#include "tools/app/shared/traced_plan.hpp"
#include "traces/chrome_json.hpp"

namespace weir::app {

bool is_trace(const std::string& text) {
  // A log may quote the word: only what is JSON as a whole is looked into.
  if (text.find("\"traceEvents\"") == text.npos) return false;
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return json.is_object() && json.contains("traceEvents");
}

JobLogSummary summary_of_trace(const std::string& text, const std::string& file) {
  const Trace trace = parse_chrome_json(text, file);
  if (trace.origin != TraceOrigin::measured)
    throw InputError(file, "weir.origin", "is a prediction: expected what was measured");
  require_comparable(trace, file);
  std::vector<double> times;
  for (const StepWindow& step : trace.steps)
    times.push_back(to_seconds(step.end - step.start).count());
  if (times.empty()) throw InputError(file, "weir.steps", "has no step");
  JobLogSummary s{.tool = "weir run", .lines = static_cast<int>(times.size())};
  s.step_time_s = spread(std::move(times));
  // The plan alone, without its model: a trace may lie elsewhere than where it was written.
  s.plan = plan_of_trace(trace, file).plan;
  return s;
}

}  // namespace weir::app
