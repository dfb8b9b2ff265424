// Idle time of each cause over all rank-time, averaged over plans.
// SPDX-License-Identifier: Apache-2.0
#include "tools/report/idle_shares.hpp"

namespace weir {

SharesByCause shares_of(const StepMetrics& metrics) {
  SharesByCause shares{};
  for (const RankMetrics& rank : metrics.ranks) {
    const auto whole = static_cast<double>((rank.busy + rank.idle.total()).count());
    for (std::size_t c = 0; c < kIdleCauses.size(); ++c) {
      const auto idle = static_cast<double>((rank.idle.*kIdleCauses[c].time).count());
      shares[c] += idle / whole / static_cast<double>(metrics.ranks.size());
    }
  }
  return shares;
}

IdleShares idle_shares(const std::vector<Comparison>& runs) {
  IdleShares mean;
  const double weight = 1 / static_cast<double>(runs.size());
  for (const Comparison& run : runs) {
    const SharesByCause predicted = shares_of(run.predicted_metrics);
    const SharesByCause measured = shares_of(run.measured_metrics);
    for (std::size_t i = 0; i < mean.predicted.size(); ++i) {
      mean.predicted[i] += weight * predicted[i];
      mean.measured[i] += weight * measured[i];
    }
  }
  return mean;
}

}  // namespace weir
