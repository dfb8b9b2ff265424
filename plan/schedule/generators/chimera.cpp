// Chimera (Li & Hoefler, SC 2021): two copies of the model run in opposite directions, half of the
// micro-batches each, so that one's bubble is the other's work. The next action is chosen by list
// scheduling, backward first, deeper stage first, with at most K micro-batches held.
//
//   stages on ranks, K = 4      down  0 1 2 3
//                               up    3 2 1 0
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "plan/schedule/generators/list_schedule.hpp"

namespace weir {

ScheduleOrReason make_chimera(const ScheduleRequest& request) {
  const std::int32_t k = request.ranks, m = request.microbatches;
  if (request.chunks != 1)
    return std::string("chimera has one stage a rank and direction: v must be 1");
  if (k % 2 != 0 || m % 2 != 0)
    return fmt::format("chimera needs even K and M; K = {}, M = {}", k, m);
  ListRule rule;
  rule.split = false;
  rule.most_in_flight = k;
  return list_schedule("chimera", bidirectional_shape(k, m), rule);
}

}  // namespace weir
