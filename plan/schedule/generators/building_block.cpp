// Repeats a block of fixed slots and lets W fill what is free, first in, first out.
// SPDX-License-Identifier: Apache-2.0
#include "plan/schedule/generators/building_block.hpp"

#include <deque>
#include <tuple>

#include "plan/schedule/generators/orders.hpp"

namespace weir {

Schedule repeat_block(const char* name, const ScheduleRequest& request,
                      BuildingBlock (*block)(std::int32_t k, std::int32_t d)) {
  // docs/theory.md 2.5: a micro-batch's slots again, six later, for the next.
  constexpr std::int32_t kPeriod = 6;
  const std::int32_t k = request.ranks;
  Schedule schedule = empty_schedule(name, v_shape(k, request.microbatches));
  for (std::int32_t d = 0; d < k; ++d) {
    const BuildingBlock b = block(k, d);
    const Stage down{d}, up{2 * k - 1 - d};
    std::vector<std::tuple<std::int32_t, Action>> slots;
    for (std::int32_t m = 0; m < request.microbatches; ++m) {
      const std::int32_t at = m * kPeriod;
      slots.emplace_back(at + b.f0, Action{down, ActionKind::F, Microbatch{m}});
      slots.emplace_back(at + b.f1, Action{up, ActionKind::F, Microbatch{m}});
      slots.emplace_back(at + b.i1, Action{up, ActionKind::I, Microbatch{m}});
      slots.emplace_back(at + b.i0, Action{down, ActionKind::I, Microbatch{m}});
    }
    std::ranges::sort(slots);
    auto& order = schedule.order[Rank{d}];
    std::deque<Action> waiting;
    std::int32_t now = 0;
    for (const auto& [slot, action] : slots) {
      // A slot before this action is free: the oldest W that waits takes it.
      for (; now < slot && !waiting.empty(); ++now) {
        order.push_back(waiting.front());
        waiting.pop_front();
      }
      order.push_back(action);
      now = slot + 1;
      if (action.kind == ActionKind::I)
        waiting.push_back({action.stage, ActionKind::W, action.microbatch});
    }
    // What found no slot follows the last action.
    order.insert(order.end(), waiting.begin(), waiting.end());
  }
  return schedule;
}

}  // namespace weir
