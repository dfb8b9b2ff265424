// The largest models that readers take: what is above is a typing error, and would overflow counts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "plan/words/units.hpp"

namespace weir {

inline constexpr std::int64_t kMostLayers = 100'000;
inline constexpr std::int64_t kLargestSize = std::int64_t{1} << 24;  // of any one dimension
inline constexpr Seconds kLongestLayer{1e6};                         // a pass of one sample

}  // namespace weir
