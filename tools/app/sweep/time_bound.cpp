// Shares a budget out.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/sweep/time_bound.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>

namespace weir::app {

TimeBound::TimeBound(const std::string& budget, const Beside& beside) {
  if (budget.empty()) return;
  budget_ = parse_duration(budget, "--budget");
  // The search has most of it. Of the reasons the changes, each a forecast, and the search outside
  // the stack take longest.
  const double changes = beside.baseline ? 1 : 0, reasons = beside.explain ? 1 : 0;
  std::array<double, kParts> weights{
      6, changes, reasons, reasons / 2, reasons * changes, reasons, beside.report ? 1.0 : 0};
  std::partial_sum(weights.begin(), weights.end(), ends_.begin());
  for (double& end : ends_) end /= std::accumulate(weights.begin(), weights.end(), 0.0);
}

std::optional<Seconds> TimeBound::left(Part part) const {
  if (!budget_) return std::nullopt;
  const Seconds gone = std::chrono::steady_clock::now() - begin_;
  return std::max(Seconds(0), *budget_ * ends_[static_cast<std::size_t>(part)] - gone);
}

bool TimeBound::over(Part part) const {
  const auto left_of_it = left(part);
  return left_of_it && left_of_it->count() <= 0;
}

}  // namespace weir::app
