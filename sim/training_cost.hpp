// What training takes of devices' hours, and of money where the cluster says a price.
//
//   GPU-hours = step time x devices x steps / 3600 s,   money = steps x step time x the price of an
//   hour of all devices
//
// Devices are all of the job, K x tp x cp x dp. Of a number of tokens the steps are tokens / tokens
// a step, not rounded, padding no token: GPU-hours are then devices x tokens / (tokens/s x 3600 s).
// Failures are counted where goodput was asked for: all of it divided by the goodput.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "plan/words/price.hpp"
#include "sim/forecast_record.hpp"

namespace weir {

inline constexpr double kBillion = 1e9;

// Of some steps: expected, and where the forecast has an interval at both of its ends.
struct TrainingCost {
  struct Amount {
    double gpu_hours = 0;  // on CPUs hours of a core
    std::optional<Price> price;
  };
  Amount expected;
  std::optional<Amount> low, high;
  Seconds time{0};  // of all the steps
};

// Without failures.
[[nodiscard]] TrainingCost cost_of_steps(const Forecast& forecast, double steps);
// nullopt where samples have no tokens.
[[nodiscard]] std::optional<TrainingCost> cost_of_tokens(const Forecast& forecast, double tokens);
// Of forecast.training_tokens, by the forecast's goodput; nullopt where none were asked about.
[[nodiscard]] std::optional<TrainingCost> cost_of_training(const Forecast& forecast);

// "training_cost" of weir.forecast/1, docs/formats.md; null where durations were given, which are
// of no job.
[[nodiscard]] nlohmann::ordered_json training_cost_json(const Forecast& forecast);

// "52.98 GPU-hours (132.5 USD) a billion tokens", of samples without tokens a thousand steps.
// Empty on CPUs whose hours have no price.
[[nodiscard]] std::string cost_text(const Forecast& forecast);
// "300,000,000,000 tokens: 15,895 GPU-hours (14,210 to 17,780), 39,738 USD (35,526 to 44,451), 10 d
// 8 h"; empty where no training was asked about.
[[nodiscard]] std::string training_text(const Forecast& forecast);

}  // namespace weir
