// Hanayo (Liu et al., SC 2023): one copy of the model cut into waves that run down and up the ranks
// gets from each rank what Chimera gets from two copies. The next action is chosen by list
// scheduling, backward first, deeper stage first.
//
//   stages on ranks, K = 2, v = 4 (two waves)     rank 0   0     3 4     7
//                                                 rank 1     1 2     5 6
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "plan/schedule/generators/list_schedule.hpp"
#include "plan/schedule/generators/orders.hpp"

namespace weir {

ScheduleOrReason make_hanayo(const ScheduleRequest& request) {
  if (request.chunks % 2 != 0)
    return fmt::format("hanayo needs an even number of stages a rank (two a wave); v = {}",
                       request.chunks);
  ListRule rule;
  rule.split = false;
  rule.most_in_flight =
      request.chunks * request.ranks * 3 / 2;  // fewer stall the waves before the first gradient
  return list_schedule("hanayo", zigzag_shape(request.ranks, request.chunks, request.microbatches),
                       rule);
}

}  // namespace weir
