// ZB-V (Qi et al., Pipeline Parallelism with Controllable Memory, NeurIPS 2024; first in Zero
// Bubble, ICLR 2024): two chunks a rank in a V, the backward split, within the memory of 1F1B. The
// authors give it as what their scheduler finds; here the actions are taken by list scheduling
// under that memory.
//
//   K = 2, M = 2, unit F = I = W     rank 0  0F0 0F1 .. 3F0 3I0 3F1 3I1 0I0 3W0 0I1 3W1 0W0 0W1
//                                    rank 1  .. 1F0 2F0 1F1 2F1 2I0 1I0 2I1 1I1 2W0 1W0 2W1 1W1
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "plan/schedule/generators/orders.hpp"

namespace weir {

ScheduleOrReason make_zb_v(const ScheduleRequest& request) {
  if (request.chunks != 2) return std::string("zb-v has two stages a rank: v must be 2");
  ListRule rule;
  rule.most_in_flight = 2 * request.ranks;
  return list_schedule("zb-v", v_shape(request.ranks, request.microbatches), rule);
}

}  // namespace weir
