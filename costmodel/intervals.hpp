// How far a forecast may be off, and whether that promise was kept: split conformal intervals with the configuration as
// the exchangeable unit. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "costmodel/costs.hpp"

namespace weir {

// Split conformal interval on |log(measured / predicted)| of plans that took no part in the fit (Lei et al., JASA 2018,
// section 2.2): plus and minus the ceil((n + 1) nominal)-th smallest. nullopt where that is more than there are (n < 9
// at 90 %): too few plans to promise anything.
[[nodiscard]] std::optional<IntervalModel> conformal_interval(std::vector<double> log_ratios, double nominal);

// How many of `plans` held-out plans an honest interval covers: the central 95 % of the beta-binomial law that a split
// conformal interval set by n plans follows, coverage ~ Beta(k, n + 1 - k) with k = ceil((n + 1) nominal)
// (Vovk, ACML 2012). Fewer hits than `low`: the interval promises too much; more than `high`: it is too
// wide.
struct CoverageBand {
  int low = 0;
  int high = 0;
};
[[nodiscard]] CoverageBand coverage_band(const IntervalModel& interval, int plans);

}  // namespace weir
