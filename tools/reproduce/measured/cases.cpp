// Measured runs as cases of `weir reproduce`: a line for each time and each memory, forecast by
// built-in costs. Runs that were not healthy are anomalies: what is printed beside their time is
// what a healthy machine would take.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <map>

#include "plan/words/error.hpp"
#include "tools/reproduce/measured/measured_run.hpp"
#include "tools/reproduce/reproduction.hpp"

namespace weir {
namespace {

const MeasuredSource& source_named(std::string_view name) {
  for (const MeasuredSource& source : measured_sources()) {
    if (source.name == name) return source;
  }
  throw InputError("measured runs", std::string(name), "no such source");
}

void add_run(const MeasuredRun& run, const RunForecast& forecast, CaseResult& result) {
  if (run.step) {
    const ReproducedNumber number{run.row, run.step->quantity, run.step->printed,
                                  run.step->printed_of(forecast.step), run.cluster.device.name};
    if (run.unhealthy.empty()) {
      result.add(Role::predicted, number);
    } else {
      result.add_anomaly(number, run.unhealthy);
    }
  }
  if (run.memory_gib) {
    result.add(Role::predicted, {run.row, fmt::format("memory, {}", to_string(run.reading)),
                                 *run.memory_gib, forecast.memory_gib, run.cluster.device.name});
  }
}

// "12 rows without a forecast: ...", a note for each reason.
void note_refusals(const std::vector<MeasuredRun>& runs, const std::vector<RunForecast>& forecasts,
                   CaseResult& result) {
  std::map<std::string, std::vector<std::string>> rows;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!forecasts[i].refusal.empty()) rows[forecasts[i].refusal].push_back(runs[i].row);
  }
  for (const auto& [reason, names] : rows) {
    result.notes.push_back(fmt::format("{} rows have no forecast: {}; the first: {}.", names.size(),
                                       reason, names.front()));
  }
}

void note_failed(const std::vector<MeasuredRun>& runs, const std::vector<RunForecast>& forecasts,
                 CaseResult& result) {
  int failed = 0, foreseen = 0, ran = 0, refused = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!forecasts[i].refusal.empty()) continue;
    ++(runs[i].failed ? failed : ran);
    if (forecasts[i].fit == Fit::no) ++(runs[i].failed ? foreseen : refused);
  }
  if (failed > 0) {
    result.notes.push_back(fmt::format(
        "Of {} rows that crashed or ran out of memory {} do not fit by the forecast, of {} that "
        "ran {}.",
        failed, foreseen, ran, refused));
  }
}

CaseResult reproduce_runs(const std::vector<MeasuredRun>& runs) {
  const std::vector<RunForecast> forecasts = forecast_runs(runs);
  CaseResult result;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (forecasts[i].refusal.empty()) add_run(runs[i], forecasts[i], result);
  }
  note_refusals(runs, forecasts, result);
  note_failed(runs, forecasts, result);
  return result;
}

CaseResult reproduce_measured(const Publications& published, std::string_view source) {
  return reproduce_runs(source_named(source).read(published));
}

}  // namespace

CaseResult reproduce_playbook(const Publications& published) {
  return reproduce_measured(published, "playbook");
}
CaseResult reproduce_bloom(const Publications& published) {
  return reproduce_measured(published, "bloom");
}
CaseResult reproduce_mlperf(const Publications& published) {
  return reproduce_measured(published, "mlperf");
}
CaseResult reproduce_primus(const Publications& published) {
  return reproduce_measured(published, "primus");
}
CaseResult reproduce_torchtitan(const Publications& published) {
  return reproduce_measured(published, "torchtitan");
}
CaseResult reproduce_llm_foundry(const Publications& published) {
  return reproduce_measured(published, "llm-foundry");
}
CaseResult reproduce_sailor(const Publications& published) {
  return reproduce_measured(published, "sailor");
}
CaseResult reproduce_megatron_bridge(const Publications& published) {
  return reproduce_measured(published, "megatron-bridge");
}
CaseResult reproduce_megatron_bridge_experts(const Publications& published) {
  CaseResult result = reproduce_runs(read_megatron_bridge_experts(published));
  result.notes.emplace_back(
      "A layer that predicts further tokens is taken as one block more and a head twice as wide.");
  return result;
}
CaseResult reproduce_nemo(const Publications& published) {
  return reproduce_measured(published, "nemo");
}
CaseResult reproduce_dgx_cloud(const Publications& published) {
  return reproduce_measured(published, "dgx-cloud");
}

}  // namespace weir
