// The V-shaped family (Qi et al., Pipeline Parallelism with Controllable Memory, NeurIPS 2024): two chunks a rank, the
// second pass runs back up, so first and last stage share rank 0, and memory is even over the ranks.
//
//   stages on ranks, K = 3      rank 0   0     5
//                               rank 1     1 4
//                               rank 2     2 3
//
// V-Half and V-Min repeat a building block of period 6 (the paper's Table of offsets): F, F, I, I of a micro-batch at
// fixed unit slots, W in free ones. ZB-V takes the actions by list scheduling within the memory of 1F1B.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <deque>
#include <tuple>

#include "plan/schedules/orders.hpp"

namespace weir {
namespace {

// Slots of a micro-batch's F and I on rank d: chunk 0 is stage d, chunk 1 stage 2K-1-d.
struct Block {
  std::int32_t f0, f1, i1, i0;
};

Block v_min(std::int32_t k, std::int32_t d) {
  const std::int32_t shift = k % 3 == 0 ? 2 : 0;
  return {d, 2 * k - d - 1, 2 * k + shift + d, 4 * k + shift - d - 1};
}
Block v_half(std::int32_t k, std::int32_t d) {
  const std::int32_t shift = k % 2 == 0 ? 3 : 0;
  return {2 * d, 3 * k - d - 2, 3 * k + shift + 2 * d - 1, 6 * k + shift - d - 2};
}

// The block repeated every six slots; between its actions as many W as there are free slots.
Schedule repeat(const char* name, const ScheduleRequest& request, Block (*block)(std::int32_t, std::int32_t)) {
  constexpr std::int32_t kPeriod = 6;
  const std::int32_t k = request.ranks;
  Schedule schedule = empty_schedule(name, v_shape(k, request.microbatches));
  for (std::int32_t d = 0; d < k; ++d) {
    const Block b = block(k, d);
    const Stage down{d}, up{2 * k - 1 - d};
    std::vector<std::tuple<std::int32_t, Action>> slots;
    for (std::int32_t m = 0; m < request.microbatches; ++m) {
      const std::int32_t at = m * kPeriod;
      slots.emplace_back(at + b.f0, Action{down, ActionKind::F, Microbatch{m}});
      slots.emplace_back(at + b.f1, Action{up, ActionKind::F, Microbatch{m}});
      slots.emplace_back(at + b.i1, Action{up, ActionKind::I, Microbatch{m}});
      slots.emplace_back(at + b.i0, Action{down, ActionKind::I, Microbatch{m}});
    }
    std::sort(slots.begin(), slots.end());
    auto& order = schedule.order[static_cast<std::size_t>(d)];
    std::deque<Action> waiting;
    std::int32_t now = 0;
    for (const auto& [slot, action] : slots) {
      for (; now < slot && !waiting.empty(); ++now) {
        order.push_back(waiting.front());
        waiting.pop_front();
      }
      order.push_back(action);
      now = slot + 1;
      if (action.kind == ActionKind::I) waiting.push_back({action.stage, ActionKind::W, action.microbatch});
    }
    order.insert(order.end(), waiting.begin(), waiting.end());
  }
  return schedule;
}

std::string two_chunks(const char* name) { return fmt::format("{} has two stages a rank: v must be 2", name); }

}  // namespace

ScheduleOrReason make_v_min(const ScheduleRequest& request) {
  if (request.chunks != 2) return two_chunks("v-min");
  return repeat("v-min", request, v_min);
}

ScheduleOrReason make_v_half(const ScheduleRequest& request) {
  if (request.chunks != 2) return two_chunks("v-half");
  return repeat("v-half", request, v_half);
}

ScheduleOrReason make_zb_v(const ScheduleRequest& request) {
  if (request.chunks != 2) return two_chunks("zb-v");
  ListRule rule;
  rule.most_in_flight = 2 * request.ranks;
  return list_schedule("zb-v", v_shape(request.ranks, request.microbatches), rule);
}

}  // namespace weir
