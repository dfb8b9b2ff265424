// How large a schedule may be.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace weir {

// Stages times micro-batches: 1024 x 4096. A step of so many is lowered, timed and drawn in some
// gigabytes.
inline constexpr std::int64_t kMostCells = std::int64_t{1} << 22;

}  // namespace weir
