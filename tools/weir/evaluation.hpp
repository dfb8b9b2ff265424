// The forecaster's accuracy on this machine (docs/design.md 17).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tools/weir/options.hpp"

namespace weir {

struct EvaluateOptions {
  PlanOptions common;
  std::string backend = "cpu";
  std::vector<int>
      stages;  // K to draw from; empty: up to a core each. One K of the cuda backend; empty: 2
  int global_batch_size = 8, fit = 8, interval = 12, held_out = 20, rounds = 5;
  std::filesystem::path output = "weir-out";
};

// Profiles, fits, sets the interval, forecasts the held-out plans and runs them; weir.evaluation/1.
// Writes predictions.json, costs.json, evaluation.json, evaluation.svg with its CSV, and
// report.html into `output`.
[[nodiscard]] std::string evaluate(const EvaluateOptions& options, std::uint64_t seed);

}  // namespace weir
