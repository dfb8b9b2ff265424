// Interleaved 1F1B (Narayanan et al., SC 2021, section 2.2.2): each rank holds v chunks;
// micro-batches go through a chunk in groups, then through the next chunk. The group is K
// micro-batches; where K does not divide M it is M over the number of rounds max(1, M / K), which
// must divide M.
//
//   K = 2, v = 2, M = 2 (group of 2), stages 0 and 2 on rank 0, forwards only:
//     rank 0   0F0 0F1 2F0 2F1          rank 1   1F0 1F1 3F0 3F1
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "plan/schedule/generators/orders.hpp"

namespace weir {

ScheduleOrReason make_interleaved_1f1b(const ScheduleRequest& request) {
  const std::int32_t k = request.ranks, v = request.chunks, m = request.microbatches;
  const std::int32_t rounds = std::max(1, m / k);
  if (m % rounds != 0) {
    return fmt::format(
        "interleaved-1f1b needs M divisible by its {} rounds of about K micro-batches; M = {}, K = "
        "{}",
        rounds, m, k);
  }
  const std::int32_t group = m / rounds;
  Schedule schedule = empty_schedule("interleaved-1f1b", looped_shape(k, v, m));
  for (std::int32_t rank = 0; rank < k; ++rank) {
    const auto action = [=](std::int32_t i, ActionKind kind) {
      const std::int32_t in_round = i % (group * v);
      const std::int32_t chunk = in_round / group;
      const std::int32_t microbatch = i / (group * v) * group + in_round % group;
      return Action{Stage{(kind == ActionKind::F ? chunk : v - 1 - chunk) * k + rank}, kind,
                    Microbatch{microbatch}};
    };
    warm_up_and_alternate(
        schedule.order[Rank{rank}], m * v, 2 * (k - rank - 1) + (v - 1) * group,
        [&](std::int32_t i) { return action(i, ActionKind::F); },
        [&](std::int32_t i) { return action(i, ActionKind::B); });
  }
  return schedule;
}

}  // namespace weir
