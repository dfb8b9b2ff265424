// How far a forecast may be off, and whether that promise was kept: split conformal intervals with
// the configuration as the exchangeable unit. A plan whose simulated step times scatter more has a
// wider interval: the residuals are divided by a scale of the plan before their quantile is taken
// (locally weighted conformal, Lei et al., JASA 2018).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "costmodel/table/interval_model.hpp"

namespace weir {

// One plan that was forecast and run and took no part in the fit. `jitter_spread`: by how much the
// median of its steps may miss, as a log ratio, by simulated jitter (sim/jitter); 0 where jitter is
// not known.
struct Miss {
  double log_ratio = 0;  // log(measured / predicted)
  double jitter_spread = 0;
};

// What such a plan's forecast tends to be off by, as a log ratio: sqrt(model_spread^2 +
// jitter_spread^2), the two being independent, and at least 1e-3.
[[nodiscard]] double scale_of(double model_spread, double jitter_spread);

// The quantile of |log_ratio| / scale: the ceil((n + 1) nominal)-th smallest. nullopt where that is
// more than there are (n < 9 at 90 %): too few plans to promise anything.
[[nodiscard]] std::optional<IntervalModel> conformal_interval(const std::vector<Miss>& misses,
                                                              double nominal, double model_spread);

// The interval is predicted * e^(-h) to predicted * e^h with this h.
[[nodiscard]] double half_width(const IntervalModel& interval, double jitter_spread);

// How many of `plans` held-out plans an honest interval covers: the central 95 % of the
// beta-binomial law that a split conformal interval set by n plans follows, coverage ~ Beta(k, n +
// 1 - k) with k = ceil((n + 1) nominal) (Vovk, ACML 2012). Fewer hits than `low`: the interval
// promises too much; more than `high`: it is too wide.
struct CoverageBand {
  int low = 0;
  int high = 0;
};
[[nodiscard]] CoverageBand coverage_band(const IntervalModel& interval, int plans);

}  // namespace weir
