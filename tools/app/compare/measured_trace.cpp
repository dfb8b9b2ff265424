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

std::map<std::string, std::int64_t> logged_arguments(const Plan& plan) {
  return {{"world_size", plan.devices()},
          {"tensor_model_parallel_size", plan.tp},
          {"pipeline_model_parallel_size", plan.pp},
          {"context_parallel_size", plan.cp},
          {"micro_batch_size", plan.micro_batch_size},
          {"global_batch_size", plan.global_batch_size()},
          {"seq_length", plan.seq_length}};
}

JobLogSummary summary_of_trace(const std::filesystem::path& file) {
  const Trace trace = load_trace(file);
  if (trace.origin != TraceOrigin::measured)
    throw InputError(file.string(), "weir.origin", "is a prediction: expected what was measured");
  require_comparable(trace, file);
  // The plan alone, without its model: a trace may lie elsewhere than where it was written.
  const Plan plan = plan_of_trace(trace, file).plan;
  std::vector<double> times;
  for (const StepWindow& step : trace.steps)
    times.push_back(to_seconds(step.end - step.start).count());
  if (times.empty()) throw InputError(file.string(), "weir.steps", "has no step");
  JobLogSummary s{.tool = "weir run", .arguments = logged_arguments(plan)};
  s.model_sha256 = plan.model_sha256;
  s.lines = static_cast<int>(times.size());
  s.step_time_s = spread(std::move(times));
  return s;
}

}  // namespace weir::app
