// GPipe (Huang et al., NeurIPS 2019, Figure 2c): all forwards, then all backwards, each in
// ascending order.
//
//   K = 3, M = 4, unit F, B twice as long
//     rank 0  F0 F1 F2 F3 .. .. .. .. .. .. B0 B0 B1 B1 B2 B2 B3 B3
//     rank 1  .. F0 F1 F2 F3 .. .. .. B0 B0 B1 B1 B2 B2 B3 B3
//     rank 2  .. .. F0 F1 F2 F3 B0 B0 B1 B1 B2 B2 B3 B3
// SPDX-License-Identifier: Apache-2.0
#include "plan/schedule/generators/generators.hpp"

namespace weir {

ScheduleOrReason make_gpipe(const ScheduleRequest& request) {
  if (request.chunks != 1)
    return std::string("gpipe has one stage a rank: v must be 1 (looped-bfs is its v > 1)");
  Schedule schedule;
  schedule.name = "gpipe";
  schedule.shape = looped_shape(request.ranks, 1, request.microbatches);
  schedule.order.resize(request.ranks);
  for (std::int32_t rank = 0; rank < request.ranks; ++rank) {
    auto& order = schedule.order[Rank{rank}];
    for (const ActionKind kind : {ActionKind::F, ActionKind::B}) {
      for (std::int32_t m = 0; m < request.microbatches; ++m)
        order.push_back({Stage{rank}, kind, Microbatch{m}});
    }
  }
  return schedule;
}

}  // namespace weir
