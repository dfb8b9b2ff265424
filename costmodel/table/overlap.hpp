// What transfers beside compute cost.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace weir {

// Fractions of speed lost while a transfer and compute overlap on a rank; fitted from traces where
// they show it.
struct OverlapSlowdown {
  double compute = 0;
  double transfer = 0;
};

}  // namespace weir
