// Breadth-first looped pipeline (Lamy-Poirier, MLSys 2023): all micro-batches through a chunk
// before the next, forward ascending, backward descending.
//
//   K = 2, v = 2, M = 2     rank 0  0F0 0F1 2F0 2F1 2B0 2B1 0B0 0B1
//                           rank 1  1F0 1F1 3F0 3F1 3B0 3B1 1B0 1B1
// SPDX-License-Identifier: Apache-2.0
#include "plan/schedule/generators/orders.hpp"

namespace weir {

ScheduleOrReason make_looped_bfs(const ScheduleRequest& request) {
  const std::int32_t k = request.ranks, v = request.chunks;
  Schedule schedule = empty_schedule("looped-bfs", looped_shape(k, v, request.microbatches));
  for (std::int32_t rank = 0; rank < k; ++rank) {
    auto& order = schedule.order[Rank{rank}];
    for (std::int32_t pass = 0; pass < 2 * v; ++pass) {
      // Forwards from the first chunk, backwards from the last.
      const std::int32_t chunk = pass < v ? pass : 2 * v - 1 - pass;
      const ActionKind kind = pass < v ? ActionKind::F : ActionKind::B;
      for (std::int32_t m = 0; m < request.microbatches; ++m)
        order.push_back({Stage{chunk * k + rank}, kind, Microbatch{m}});
    }
  }
  return schedule;
}

}  // namespace weir
