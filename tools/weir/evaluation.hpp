// The forecaster's accuracy on this machine (DESIGN section 6).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "tools/weir/options.hpp"

namespace weir {

struct EvaluateOptions {
  PlanOptions common;
  int global_batch_size = 8, fit = 8, interval = 12, held_out = 20, rounds = 5;
  std::string backend = "cpu";
  int devices = 0;  // most ranks of a plan; 0: default_devices. Of the cuda backend every plan has so many
  std::filesystem::path output = "weir-out";
};

// Profiles, fits, sets the interval, forecasts the held-out plans and runs them; weir.evaluation/1. Writes
// predictions.json, costs.json, evaluation.json and evaluation.svg with its CSV into `output`.
[[nodiscard]] std::string evaluate(const EvaluateOptions& options, std::uint64_t seed);

}  // namespace weir
