// Warm-up orders.
// SPDX-License-Identifier: Apache-2.0
#include "plan/schedule/generators/orders.hpp"

#include <utility>

namespace weir {

Schedule empty_schedule(std::string name, ScheduleShape shape) {
  Schedule schedule;
  schedule.name = std::move(name);
  schedule.order.resize(shape.ranks);
  schedule.shape = std::move(shape);
  return schedule;
}

ScheduleShape zigzag_shape(std::int32_t ranks, std::int32_t chunks, std::int32_t microbatches) {
  ScheduleShape shape = looped_shape(ranks, chunks, microbatches);
  for (const Stage stage : shape.all_stages()) {
    const std::int32_t place = stage.value % ranks;
    // Every other chunk runs up.
    const bool down = stage.value / ranks % 2 == 0;
    shape.rank_of_stage[stage] = Rank{down ? place : ranks - 1 - place};
  }
  return shape;
}

Schedule alternating_schedule(const char* name, const ScheduleRequest& request,
                              std::int32_t warmup_per_rank) {
  Schedule schedule = empty_schedule(name, looped_shape(request.ranks, 1, request.microbatches));
  for (std::int32_t rank = 0; rank < request.ranks; ++rank) {
    warm_up_and_alternate(
        schedule.order[Rank{rank}], request.microbatches,
        warmup_per_rank * (request.ranks - 1 - rank),
        [rank](std::int32_t m) {
          return Action{Stage{rank}, ActionKind::F, Microbatch{m}};
        },
        [rank](std::int32_t m) {
          return Action{Stage{rank}, ActionKind::B, Microbatch{m}};
        });
  }
  return schedule;
}

void split_rank(std::vector<Action>& order, const SplitRank& split) {
  const auto [rank, m, warmup, delay] = split;
  const auto add = [&order, &split](ActionKind kind, std::int32_t i) {
    order.push_back({Stage{split.rank}, kind, Microbatch{i}});
  };
  const std::int32_t first = std::min(warmup, m);
  for (std::int32_t i = 0; i < first; ++i) add(ActionKind::F, i);
  for (std::int32_t i = 0; i < m; ++i) {
    if (first + i < m) add(ActionKind::F, first + i);
    add(ActionKind::I, i);
    // So many micro-batches behind its I, where the rank would be idle.
    if (i >= delay) add(ActionKind::W, i - delay);
  }
  for (std::int32_t i = std::max(0, m - delay); i < m; ++i) add(ActionKind::W, i);
}

}  // namespace weir
