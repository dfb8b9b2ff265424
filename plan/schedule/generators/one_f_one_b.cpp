// 1F1B with a flush (PipeDream, SOSP 2019, section 3.2; Megatron-LM, SC 2021, Figure 4 top): rank k
// warms up with min(M, K-k-1) forwards, then alternates one forward and one backward, then drains.
//
//   K = 3, M = 4, unit F, B twice as long
//     rank 0  F0 F1 F2 .. .. .. .. B0 B0 F3 B1 B1 .. B2 B2 .. B3 B3
//     rank 1  .. F0 F1 .. .. B0 B0 F2 B1 B1 F3 B2 B2 .. B3 B3
//     rank 2  .. .. F0 B0 B0 F1 B1 B1 F2 B2 B2 F3 B3 B3
// SPDX-License-Identifier: Apache-2.0
#include "plan/schedule/generators/orders.hpp"

namespace weir {

ScheduleOrReason make_1f1b(const ScheduleRequest& request) {
  if (request.chunks != 1)
    return std::string("1f1b has one stage a rank: v must be 1 (interleaved-1f1b is its v > 1)");
  return alternating_schedule("1f1b", request, 1);
}

}  // namespace weir
