// The one statistic that every floor above uses on measured times.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace weir {

// Middle of the sorted values; the mean of the two middle ones where their number is even.
// Precondition: not empty.
[[nodiscard]] double median(std::vector<double> values);

}  // namespace weir
