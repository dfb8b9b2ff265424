// ZB-H1 (Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024, section 2.1): the backward is
// split, the gradient leaves after I, and W waits to fill what would be idle. The warm-up and so
// the memory are 1F1B's; rank k delays its W by k micro-batches. (The paper writes B for our I.)
//
//   K = 3, M = 3, unit F = I = W     rank 0  F0 F1 F2 .. .. I0 W0 .. I1 W1 I2 W2
//                                    rank 1  .. F0 F1 .. I0 F2 I1 W0 .. I2 W1 W2
//                                    rank 2  .. .. F0 I0 F1 I1 F2 I2 W0 W1 W2
// SPDX-License-Identifier: Apache-2.0
#include "plan/schedule/generators/orders.hpp"

namespace weir {

ScheduleOrReason make_zb_h1(const ScheduleRequest& request) {
  if (request.chunks != 1) return std::string("zb-h1 has one stage a rank: v must be 1");
  Schedule schedule = empty_schedule("zb-h1", looped_shape(request.ranks, 1, request.microbatches));
  for (std::int32_t k = 0; k < request.ranks; ++k) {
    split_rank(schedule.order[Rank{k}], {k, request.microbatches, request.ranks - 1 - k, k});
  }
  return schedule;
}

}  // namespace weir
