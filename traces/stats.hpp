// The statistics that every floor above uses on measured times.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

namespace weir {

// Middle of the sorted values; the mean of the two middle ones where their number is even.
// Precondition: not empty.
[[nodiscard]] double median(std::vector<double> values);

// A value and how much it counts, above 0.
using Weighted = std::pair<double, double>;

// The value at which half of the weight is passed; the mean of the two that meet there. Equal
// weights give the median. Precondition: not empty.
[[nodiscard]] double weighted_median(std::vector<Weighted> values);

// Spreads within which a residual counts in full in a robust fit: 95 % efficient where errors are
// normal (Huber 1964).
inline constexpr double kHuberThreshold = 1.345;

// Median |value - c| / c about c, the median of the fastest half (the odd one included): what is
// disturbed is slower, so the fastest values tell best what undisturbed ones would be.
// Precondition: not empty, above 0.
[[nodiscard]] double spread_over_fastest_half(std::vector<double> values);

}  // namespace weir
