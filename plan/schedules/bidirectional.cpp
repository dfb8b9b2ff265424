// Chimera (Li & Hoefler, SC 2021): two copies of the model run in opposite directions, half of the micro-batches each,
// so that one's bubble is the other's work. Hanayo (Liu et al., SC 2023) gets the same from one copy by cutting it into
// waves that run down and up the ranks. Both choose the next action by list scheduling (backward first, deeper stage
// first).
//
//   Chimera, stages on ranks, K = 4      down  0 1 2 3        Hanayo, one wave, K = 2    0 3
//                                        up    3 2 1 0                                    1 2
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "plan/schedules/orders.hpp"

namespace weir {

ScheduleOrReason make_chimera(const ScheduleRequest& request) {
  const std::int32_t k = request.ranks, m = request.microbatches;
  if (request.chunks != 1) return std::string("chimera has one stage a rank and direction: v must be 1");
  if (k % 2 != 0 || m % 2 != 0) return fmt::format("chimera needs even K and M; K = {}, M = {}", k, m);
  ListRule rule;
  rule.split = false;
  rule.most_in_flight = k;
  return list_schedule("chimera", bidirectional_shape(k, m), rule);
}

ScheduleOrReason make_hanayo(const ScheduleRequest& request) {
  if (request.chunks % 2 != 0)
    return fmt::format("hanayo needs an even number of stages a rank (two a wave); v = {}", request.chunks);
  ListRule rule;
  rule.split = false;
  rule.most_in_flight = request.chunks * request.ranks * 3 / 2;  // fewer stall the waves before the first gradient
  return list_schedule("hanayo", zigzag_shape(request.ranks, request.chunks, request.microbatches), rule);
}

}  // namespace weir
