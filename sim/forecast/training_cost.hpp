// What training takes of devices' hours, and of money where the cluster says a price.
//
//   GPU-hours = step time x devices x steps / 3600 s,   money = steps x step time x the price of an
//   hour of all devices
//
// Devices are all of the job, K x tp x cp x dp, or those that its ranks share where they are fewer.
// Of a number of tokens the steps are tokens / tokens a step, not rounded, padding no token:
// GPU-hours are then devices x tokens / (tokens/s x 3600 s). Failures are counted where goodput was
// asked for: all of it divided by the goodput; where that is below 1e-9, training never ends.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "plan/words/price.hpp"
#include "sim/forecast/forecast_record.hpp"

namespace weir {

inline constexpr double kBillion = 1e9;

// Of some steps: expected, and where the forecast has an interval at both of its ends.
struct TrainingCost {
  struct Amount {
    double gpu_hours = 0;  // of devices of any kind
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
// Of forecast.training_tokens, by the forecast's goodput; nullopt where none were asked about, or
// where they never end.
[[nodiscard]] std::optional<TrainingCost> cost_of_training(const Forecast& forecast);
// Of a billion tokens, of samples without tokens of a thousand steps.
[[nodiscard]] TrainingCost cost_of_unit(const Forecast& forecast);
// Whether the cheaper of two is the one of the shorter step: equally many devices, at one price,
// and equally many tokens a step.
[[nodiscard]] bool costs_go_with_steps(const Forecast& a, const Forecast& b);

// "training_cost" of weir.forecast/1, docs/formats.md; null where durations were given, which are
// of no job.
[[nodiscard]] nlohmann::ordered_json training_cost_json(const Forecast& forecast);

// "52.98 GPU-hours (132.45 USD) a billion tokens", of samples without tokens a thousand steps; on
// this machine's CPU core-hours, device-hours where a cluster's file does not say what they are.
// Empty on this machine's CPU without a price.
[[nodiscard]] std::string cost_text(const Forecast& forecast);
// The same behind a comma: ", 52.98 GPU-hours a billion tokens".
[[nodiscard]] std::string cost_clause(const Forecast& forecast);
// "300,000,000,000 tokens: 15,900 GPU-hours (14,210 to 17,780), 39,740 USD (35,530 to 44,450), 10 d
// 8 h"; empty where no training was asked about.
[[nodiscard]] std::string training_text(const Forecast& forecast);

}  // namespace weir
