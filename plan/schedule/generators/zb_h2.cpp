// ZB-H2 (Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024, section 2.2): ZB-H1 with twice the
// warm-up and twice the delay of W. Its span has no bubble; under a step barrier it takes as long
// as ZB-H1 where F = I = W, with twice the memory.
//
//   K = 3, M = 5, unit F = I = W     rank 0  F0 F1 F2 F3 F4 I0 W0 I1 W1 I2 W2 I3 W3 I4 W4
//                                    rank 1  .. F0 F1 F2 I0 F3 I1 F4 I2 W0 I3 W1 I4 W2 W3 W4
//                                    rank 2  .. .. F0 I0 F1 I1 F2 I2 F3 I3 F4 I4 W0 W1 W2 W3 W4
// SPDX-License-Identifier: Apache-2.0
#include "plan/schedule/generators/orders.hpp"

namespace weir {

ScheduleOrReason make_zb_h2(const ScheduleRequest& request) {
  if (request.chunks != 1) return std::string("zb-h2 has one stage a rank: v must be 1");
  Schedule schedule = empty_schedule("zb-h2", looped_shape(request.ranks, 1, request.microbatches));
  for (std::int32_t k = 0; k < request.ranks; ++k) {
    split_rank(schedule.order[Rank{k}],
               {k, request.microbatches, 2 * (request.ranks - k) - 2, 2 * k});
  }
  return schedule;
}

}  // namespace weir
