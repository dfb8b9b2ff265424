// What a message costs its two ends.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/words/units.hpp"

namespace weir {

// One message: the send lane is busy for `occupancy`; the message arrives `latency` after that.
struct MessageCost {
  Nanoseconds occupancy{0};
  Nanoseconds latency{0};
};

}  // namespace weir
