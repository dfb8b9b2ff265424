// Conformal intervals and the hits to be expected of them (docs/theory.md 9.1 and 9.2).
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/fit/intervals.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace weir {
namespace {

double rank_of(int plans, double nominal) { return std::ceil((plans + 1) * nominal - 1e-9); }

// std::lgamma leaves the sign in a variable that all threads share.
double log_gamma(double x) {
  int sign = 0;
  return ::lgamma_r(x, &sign);
}

double log_beta(double a, double b) { return log_gamma(a) + log_gamma(b) - log_gamma(a + b); }

}  // namespace

double scale_of(double model_spread, double jitter_spread) {
  constexpr double kLeast = 1e-3;  // no forecast is better than the clocks that judge it
  return std::max(kLeast, std::hypot(model_spread, jitter_spread));
}

std::optional<IntervalModel> conformal_interval(const std::vector<Miss>& misses, double nominal,
                                                double model_spread) {
  const double rank = rank_of(static_cast<int>(misses.size()), nominal);
  // The rank that covers the next plan with the nominal probability; beyond the last, none does.
  if (misses.empty() || rank > static_cast<double>(misses.size())) return std::nullopt;
  std::vector<double> scores;
  for (const Miss& miss : misses) {
    scores.push_back(std::abs(miss.log_ratio) / scale_of(model_spread, miss.jitter_spread));
  }
  std::sort(scores.begin(), scores.end());
  return IntervalModel{nominal, scores[static_cast<std::size_t>(rank) - 1], model_spread,
                       static_cast<int>(scores.size())};
}

double half_width(const IntervalModel& interval, double jitter_spread) {
  return interval.quantile * scale_of(interval.model_spread, jitter_spread);
}

CoverageBand coverage_band(const IntervalModel& interval, int plans) {
  // The k-th smallest score bounds the interval, so coverage is Beta(k, n + 1 - k) (docs/theory.md
  // 9.2).
  const double k = rank_of(interval.calibration_plans, interval.nominal);
  const double rest = interval.calibration_plans + 1 - k;
  const double n = plans;
  CoverageBand band{-1, plans};
  double below = 0;
  for (int hits = 0; hits <= plans; ++hits) {
    const double h = hits;
    const double choose = log_gamma(n + 1) - log_gamma(h + 1) - log_gamma(n - h + 1);
    // The beta-binomial's mass at so many hits, added up; both ends leave 2.5 %.
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
