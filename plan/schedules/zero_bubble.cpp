// ZB-H1 and ZB-H2 (Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024, sections 2.1 and 2.2): the backward is
// split, the gradient leaves after I, and W waits to fill what would be idle. H1 keeps 1F1B's memory; H2 warms up twice
// as long. (The paper writes B for our I.)
//
//   ZB-H1, K = 3, M = 3, unit F = I = W     rank 0  F0 F1 F2 .. .. I0 W0 .. I1 W1 I2 W2
//                                           rank 1  .. F0 F1 .. I0 F2 I1 W0 .. I2 W1 W2
//                                           rank 2  .. .. F0 I0 F1 I1 F2 I2 W0 W1 W2
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "plan/schedules/orders.hpp"

namespace weir {
namespace {

// Warm-up of `warmup` forwards; then F, I and, from the delay-th on, W.
void split_rank(std::vector<Action>& order, std::int32_t rank, std::int32_t m, std::int32_t warmup,
                std::int32_t delay) {
  const auto add = [&](ActionKind kind, std::int32_t i) { order.push_back({Stage{rank}, kind, Microbatch{i}}); };
  const std::int32_t first = std::min(warmup, m);
  for (std::int32_t i = 0; i < first; ++i) add(ActionKind::F, i);
  for (std::int32_t i = 0; i < m; ++i) {
    if (first + i < m) add(ActionKind::F, first + i);
    add(ActionKind::I, i);
    if (i >= delay) add(ActionKind::W, i - delay);
  }
  for (std::int32_t i = std::max(0, m - delay); i < m; ++i) add(ActionKind::W, i);
}

}  // namespace

ScheduleOrReason make_zb_h1(const ScheduleRequest& request) {
  if (request.chunks != 1) return std::string("zb-h1 has one stage a rank: v must be 1");
  Schedule schedule = empty_schedule("zb-h1", looped_shape(request.ranks, 1, request.microbatches));
  for (std::int32_t k = 0; k < request.ranks; ++k) {
    split_rank(schedule.order[static_cast<std::size_t>(k)], k, request.microbatches, request.ranks - 1 - k, k);
  }
  return schedule;
}

ScheduleOrReason make_zb_h2(const ScheduleRequest& request) {
  if (request.chunks != 1) return std::string("zb-h2 has one stage a rank: v must be 1");
  Schedule schedule = empty_schedule("zb-h2", looped_shape(request.ranks, 1, request.microbatches));
  for (std::int32_t k = 0; k < request.ranks; ++k) {
    split_rank(schedule.order[static_cast<std::size_t>(k)], k, request.microbatches, 2 * (request.ranks - k) - 2,
               2 * k);
  }
  return schedule;
}

}  // namespace weir
