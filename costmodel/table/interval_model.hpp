// What an interval about a forecast is made of.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace weir {

// How far forecasts may be off (costmodel/fit/intervals): |log(measured / predicted)| of a plan is
// at most `quantile` times the plan's scale, which joins what the model misses with what the plan's
// own jitter does to its step time.
struct IntervalModel {
  double nominal = 0.9;
  double quantile = 0;
  double model_spread = 0;    // median |log(measured / predicted)| of the plans that were fitted
  int calibration_plans = 0;  // that set the quantile
};

}  // namespace weir
