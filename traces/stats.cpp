// The median, and the spread about that of the fastest.
// SPDX-License-Identifier: Apache-2.0
#include "traces/stats.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <utility>

namespace weir {

double median(std::vector<double> values) {
  assert(!values.empty());
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  // nth_element() left all lesser values before the middle; the largest of them is the other middle
  // one.
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double weighted_median(std::vector<Weighted> values) {
  assert(!values.empty());
  std::ranges::sort(values);
  double total = 0, passed = 0;
  for (const auto& [value, weight] : values) total += weight;
  for (std::size_t i = 0; i < values.size(); ++i) {
    passed += values[i].second;
    // Sums of weights that were meant to be equal halves differ by rounding.
    if (i + 1 < values.size() && std::abs(passed - total / 2) <= 1e-12 * total)
      return (values[i].first + values[i + 1].first) / 2;
    if (passed > total / 2) return values[i].first;
  }
  return values.back().first;
}

double spread_over_fastest_half(std::vector<double> values) {
  std::ranges::sort(values);
  const auto half = static_cast<std::ptrdiff_t>((values.size() + 1) / 2);
  const double centre = median({values.begin(), values.begin() + half});
  for (double& value : values) value = std::abs(value - centre) / centre;
  return median(std::move(values));
}

}  // namespace weir
