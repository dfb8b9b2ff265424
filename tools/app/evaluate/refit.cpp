// Fits to all trials and to all but each, and chooses.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/evaluate/refit.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <utility>

#include "sim/forecast/forecast.hpp"
#include "traces/stats.hpp"

namespace weir::app {
namespace {

constexpr double kWorse = 0.01;
constexpr std::size_t kFewestJudged = 3;

Calibration fitted(const std::vector<Trial>& trials, const Trial* left_out, const Costs& first,
                   const Cluster& cluster) {
  std::vector<CalibrationRun> runs;
  for (const Trial& trial : trials) {
    if (&trial != left_out) runs.push_back({&trial.plan, &trial.run.trace});
  }
  return calibrate(first, runs, cluster);
}

}  // namespace

Refit refit(const std::vector<Trial>& trials, const Costs& first, const Cluster& cluster) {
  Calibration of_all = fitted(trials, nullptr, first, cluster);
  Refit result{.costs = std::move(of_all.costs), .quality = std::move(of_all.quality)};
  std::vector<double> before, after;
  for (const Trial& trial : trials) {
    before.push_back(std::abs(trial.first.forecast.step_time / trial.measured() - 1));
    result.left_out.emplace_back();
    // With one run nothing is left to fit to.
    if (trials.size() == 1) continue;
    // Each plan is forecast by a fit to the others: the error of a plan that was not seen.
    const Costs others = fitted(trials, &trial, first, cluster).costs;
    const Seconds forecast_by_others = forecast(trial.plan, others, cluster).forecast.step_time;
    result.left_out.back() = forecast_by_others;
    after.push_back(std::abs(forecast_by_others / trial.measured() - 1));
  }
  result.error_first = median(std::move(before));
  if (after.empty()) return result;
  result.error_left_out = median(std::move(after));
  // With few runs the errors left out are chance, and the fit is taken.
  result.taken =
      trials.size() < kFewestJudged || *result.error_left_out <= result.error_first + kWorse;
  if (!result.taken) result.costs = first;
  return result;
}

std::string why_not_taken(const Refit& refit) {
  if (refit.taken) return "";
  return fmt::format(
      "what these runs teach forecasts plans left out of it worse ({:.1f} %) than the costs "
      "before it ({:.1f} %): those stand",
      *refit.error_left_out * 100, refit.error_first * 100);
}

}  // namespace weir::app
