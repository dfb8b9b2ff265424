// What is counted and timed of a network run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/words/units.hpp"

namespace weir::cpu {

// One worker, one step.
struct NetworkCounts {
  double multiply_adds = 0;
  double exchanged_elements = 0;  // read from others
};

// By the workers' core clocks, means over them; `step` is by the wall clock. Products are the
// multiply-adds alone: copies that they are made from are elementwise.
struct NetworkTimes {
  Seconds step{0}, products{0}, elementwise{0}, exchanges{0};
  [[nodiscard]] Seconds work() const { return products + elementwise + exchanges; }
};

}  // namespace weir::cpu
