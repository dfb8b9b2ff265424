// How far a layout's numbers are from those of the unsplit computation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>

namespace weir::cpu {

// The largest difference of one tensor's blocks, over its largest number.
struct Apart {
  float apart = 0, largest = 0;
  void compare(float mine, float its) {
    largest = std::max(largest, std::abs(its));
    const float difference = std::abs(mine - its);
    if (!(difference <= apart)) apart = difference;  // a NaN counts
  }
  [[nodiscard]] double relative() const {
    return largest > 0 ? double{apart} / double{largest} : double{apart};
  }
};

}  // namespace weir::cpu
