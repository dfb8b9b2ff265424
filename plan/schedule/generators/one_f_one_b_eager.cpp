// Eager 1F1B (DAPPLE, PPoPP 2021, policy B): 1F1B with twice the warm-up, min(M, 2(K-k-1))
// forwards, so that a message has a whole period to arrive. At c = 0 it takes as long as 1F1B; with
// latency it hides what 1F1B pays for every micro-batch.
//
//   K = 3, M = 4, unit F, B twice as long
//     rank 0  F0 F1 F2 F3 .. .. .. B0 B0 .. B1 B1 .. B2 B2 .. B3 B3
//     rank 1  .. F0 F1 F2 .. B0 B0 F3 B1 B1 .. B2 B2 .. B3 B3
//     rank 2  .. .. F0 B0 B0 F1 B1 B1 F2 B2 B2 F3 B3 B3
// SPDX-License-Identifier: Apache-2.0
#include "plan/schedule/generators/orders.hpp"

namespace weir {

ScheduleOrReason make_1f1b_eager(const ScheduleRequest& request) {
  if (request.chunks != 1) return std::string("1f1b-eager has one stage a rank: v must be 1");
  return alternating_schedule("1f1b-eager", request, 2);
}

}  // namespace weir
