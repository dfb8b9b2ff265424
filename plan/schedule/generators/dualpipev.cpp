// DualPipeV: DualPipe (DeepSeek-V3 technical report, 2024, section 3.2.1) cut in half: one copy of
// the model folded into a V, so that both flows pass the same ranks. Phase 0 of rank r is stage r,
// phase 1 stage 2R-1-r.
//
//   stages on ranks, R = 3      rank 0   0     5
//                               rank 1     1 4
//                               rank 2     2 3
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "plan/schedule/generators/dual_flow.hpp"
#include "plan/schedule/generators/orders.hpp"

namespace weir {

ScheduleOrReason make_dualpipev(const ScheduleRequest& request) {
  const std::int32_t k = request.ranks, m = request.microbatches;
  if (request.chunks != 2) return std::string("dualpipev has two stages a rank: v must be 2");
  if (m < 2 * k) return fmt::format("dualpipev needs M of at least 2K = {}; M = {}", 2 * k, m);
  Schedule schedule = empty_schedule("dualpipev", v_shape(k, m));
  schedule.overlapped.resize(k);
  for (std::int32_t r = 0; r < k; ++r) {
    fill_dual_flow({{Stage{r}, 0}, {Stage{2 * k - 1 - r}, 0}, r, k, m}, schedule.order[Rank{r}],
                   schedule.overlapped[Rank{r}]);
  }
  return schedule;
}

}  // namespace weir
