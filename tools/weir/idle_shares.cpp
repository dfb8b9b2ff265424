// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/idle_shares.hpp"

#include "traces/compare.hpp"

namespace weir {
namespace {

using Shares = std::array<double, kIdleCauses.size()>;

Shares shares_of(const StepMetrics& metrics) {
  Shares shares{};
  for (const RankMetrics& rank : metrics.ranks) {
    const std::array idle{rank.idle.fill,          rank.idle.drain, rank.idle.imbalance,
                          rank.idle.communication, rank.idle.host,  rank.idle.optimizer};
    const auto whole = static_cast<double>((rank.busy + rank.idle.total()).count());
    for (std::size_t c = 0; c < idle.size(); ++c) {
      shares[c] +=
          static_cast<double>(idle[c].count()) / whole / static_cast<double>(metrics.ranks.size());
    }
  }
  return shares;
}

}  // namespace

IdleShares idle_shares(const std::vector<Trial>& trials) {
  IdleShares mean;
  const double weight = 1 / static_cast<double>(trials.size());
  for (const Trial& t : trials) {
    const Comparison c = compare(t.plan.program, t.first.trace, t.run.trace);
    const Shares predicted = shares_of(c.predicted_metrics),
                 measured = shares_of(c.measured_metrics);
    for (std::size_t i = 0; i < mean.predicted.size(); ++i) {
      mean.predicted[i] += weight * predicted[i];
      mean.measured[i] += weight * measured[i];
    }
  }
  return mean;
}

}  // namespace weir
