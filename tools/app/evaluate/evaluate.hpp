// `evaluate`: how good is the forecaster on this machine (docs/design.md 17)? A seeded random set
// of plans of one mini-batch: some fit the model, others set the interval, the rest are forecast,
// the forecasts written and hashed, and only then run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/app/machine/watch.hpp"
#include "tools/app/shared/field.hpp"
#include "tools/app/shared/plan_fields.hpp"
#include "tools/report/pages/evaluation_report.hpp"

namespace weir::app {

struct EvaluateRequest {
  PlanOptions plan;
  std::string backend = "cpu";
  // What profiles and runs: "weir", or "torch", the user's PyTorch in this Python.
  std::string executor = "weir", python = "python3";
  std::optional<std::filesystem::path> costs;  // to forecast by; absent: profiled first
  // K to draw from; empty: up to a core each. One K of the cuda backend; empty: 2.
  std::vector<int> stages;
  int global_batch_size = 8, fit = 8, interval = 12, held_out = 20, rounds = 5;
  // Folder for predictions.json, costs.json, evaluation.json, evaluation.svg with its CSV, and
  // report.html.
  std::filesystem::path output = "weir-out";
  bool resume = false;  // go on with what an evaluation that was cut short has measured
  QuietOptions quiet;
  std::uint64_t seed = 1;
};
[[nodiscard]] Fields fields(EvaluateRequest& request);

struct EvaluateResult {
  EvaluationReport report;
  Disturbance disturbance = {};  // of the profile and the runs, the worst
};

[[nodiscard]] EvaluateResult evaluate(const EvaluateRequest& request, const Session& session);
[[nodiscard]] nlohmann::ordered_json to_json(const EvaluateResult& result);  // weir.evaluation/1

inline constexpr UseCase<EvaluateRequest, EvaluateResult> kEvaluate{
    "evaluate", "Run random held-out plans here and report the forecaster's error", &evaluate};

}  // namespace weir::app
