// DualPipe (DeepSeek-V3 technical report, 2024, section 3.2.1): two copies of the model, half of
// the micro-batches enter at each end; on K ranks it is DualPipeV on K/2 run from both ends, phase
// 1 being the other direction's micro-batches.
//
//   stages on ranks, K = 4      down  0 1 2 3
//                               up    3 2 1 0
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "plan/schedule/generators/dual_flow.hpp"
#include "plan/schedule/generators/orders.hpp"

namespace weir {

ScheduleOrReason make_dualpipe(const ScheduleRequest& request) {
  const std::int32_t k = request.ranks, m = request.microbatches;
  if (request.chunks != 1)
    return std::string("dualpipe has one stage a rank and direction: v must be 1");
  if (k % 2 != 0 || m % 2 != 0)
    return fmt::format("dualpipe needs even K and M; K = {}, M = {}", k, m);
  if (m < 2 * k) return fmt::format("dualpipe needs M of at least 2K = {}; M = {}", 2 * k, m);
  Schedule schedule = empty_schedule("dualpipe", bidirectional_shape(k, m));
  schedule.overlapped.resize(k);
  for (std::int32_t rank = 0; rank < k; ++rank) {
    const bool upper = rank < k / 2;
    // The lower half does what the upper one does, seen from the other end.
    const std::int32_t r = upper ? rank : k - 1 - rank;
    // Direction 0 runs down from rank 0 with the first half of the micro-batches, direction 1 up
    // from rank K-1.
    const FlowPhase down{Stage{rank}, 0}, up{Stage{k + (k - 1 - rank)}, m / 2};
    fill_dual_flow({upper ? down : up, upper ? up : down, r, k / 2, m / 2},
                   schedule.order[Rank{rank}], schedule.overlapped[Rank{rank}]);
  }
  return schedule;
}

}  // namespace weir
