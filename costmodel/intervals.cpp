// SPDX-License-Identifier: Apache-2.0
#include "costmodel/intervals.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace weir {
namespace {

double rank_of(int plans, double nominal) { return std::ceil((plans + 1) * nominal - 1e-9); }

double log_beta(double a, double b) { return std::lgamma(a) + std::lgamma(b) - std::lgamma(a + b); }

}  // namespace

std::optional<IntervalModel> conformal_interval(std::vector<double> log_ratios, double nominal) {
  const double rank = rank_of(static_cast<int>(log_ratios.size()), nominal);
  if (log_ratios.empty() || rank > static_cast<double>(log_ratios.size())) return std::nullopt;
  for (double& ratio : log_ratios) ratio = std::abs(ratio);
  std::sort(log_ratios.begin(), log_ratios.end());
  const double widest = log_ratios[static_cast<std::size_t>(rank) - 1];
  return IntervalModel{nominal, -widest, widest, static_cast<int>(log_ratios.size())};
}

CoverageBand coverage_band(const IntervalModel& interval, int plans) {
  const double k = rank_of(interval.calibration_plans, interval.nominal);
  const double rest = interval.calibration_plans + 1 - k;
  const double n = plans;
  CoverageBand band{-1, plans};
  double below = 0;
  for (int hits = 0; hits <= plans; ++hits) {
    const double h = hits;
    const double choose = std::lgamma(n + 1) - std::lgamma(h + 1) - std::lgamma(n - h + 1);
    below += std::exp(choose + log_beta(h + k, n - h + rest) - log_beta(k, rest));
    if (band.low < 0 && below > 0.025) band.low = hits;
    if (below >= 0.975) {
      band.high = hits;
      break;
    }
  }
  return band;
}

}  // namespace weir
