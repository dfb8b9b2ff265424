// ZB-V (Qi et al., Pipeline Parallelism with Controllable Memory, NeurIPS 2024; first in Zero
// Bubble, ICLR 2024, section 6): two chunks a rank in a V, the backward split, within the memory of
// 1F1B. From M = 2K - 1 on it is PyTorch's order (ScheduleZBVZeroBubble), whose ranks are never
// idle between their first and their last action where F = I = W. Stage k is rank k's first chunk
// a, stage 2K-1-k its second one z; on rank k:
//   2(K-k)-1 times  Fa
//   k times         Fz Fa
//   K-k times       Fz Iz Wz
//   while Fz lasts  Fa Ia Wa Fz Iz Wz        (Fa while it lasts)
//   k times         Ia Iz
//   K-k times       Ia Wa
//   the rest        Wz, then Wa
// Fewer micro-batches do not fill that: there, as what the authors' scheduler finds is no formula,
// actions are taken by list scheduling under the same memory.
//
//   K = 2, M = 3, unit F = I = W     rank 0  0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0I0 0W0 3F2 ..
//                                    rank 1  .. 1F0 1F1 2F0 1F2 2F1 2I0 ..
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <string>

#include "plan/schedule/generators/list_schedule.hpp"
#include "plan/schedule/generators/orders.hpp"

namespace weir {
namespace {

class ZbvRank {
 public:
  ZbvRank(std::vector<Action>& order, const ScheduleRequest& request, std::int32_t rank)
      : order_(order), m_(request.microbatches), k_(request.ranks), rank_(rank) {}

  void fill() {
    for (int i = 0; i < 2 * (k_ - rank_) - 1; ++i) add(kA, ActionKind::F);
    for (int i = 0; i < rank_; ++i) {
      add(kZ, ActionKind::F);
      add(kA, ActionKind::F);
    }
    for (int i = 0; i < k_ - rank_; ++i) back_and_forth(kZ, true);
    while (done(kZ, ActionKind::F) < m_) {
      back_and_forth(kA, done(kA, ActionKind::F) < m_);
      back_and_forth(kZ, true);
    }
    for (int i = 0; i < rank_; ++i) {
      add(kA, ActionKind::I);
      add(kZ, ActionKind::I);
    }
    for (int i = 0; i < k_ - rank_; ++i) {
      add(kA, ActionKind::I);
      add(kA, ActionKind::W);
    }
    for (const std::size_t chunk : {kZ, kA})
      while (done(chunk, ActionKind::W) < m_) add(chunk, ActionKind::W);
  }

 private:
  static constexpr std::size_t kA = 0, kZ = 1;
  std::int32_t& done(std::size_t chunk, ActionKind kind) {
    return done_[chunk][kind == ActionKind::F ? 0 : kind == ActionKind::I ? 1 : 2];
  }
  void add(std::size_t chunk, ActionKind kind) {
    const std::int32_t stage = chunk == kA ? rank_ : 2 * k_ - 1 - rank_;
    order_.push_back({Stage{stage}, kind, Microbatch{done(chunk, kind)++}});
  }
  void back_and_forth(std::size_t chunk, bool forward) {
    if (forward) add(chunk, ActionKind::F);
    add(chunk, ActionKind::I);
    add(chunk, ActionKind::W);
  }

  std::vector<Action>& order_;
  std::int32_t m_, k_, rank_;
  std::array<std::array<std::int32_t, 3>, 2> done_{};
};

}  // namespace

ScheduleOrReason make_zb_v(const ScheduleRequest& request) {
  if (request.chunks != 2) return std::string("zb-v has two stages a rank: v must be 2");
  const ScheduleShape shape = v_shape(request.ranks, request.microbatches);
  if (request.microbatches < 2 * request.ranks - 1) {
    ListRule rule;
    rule.most_in_flight = 2 * request.ranks;
    return list_schedule("zb-v", shape, rule);
  }
  Schedule schedule = empty_schedule("zb-v", shape);
  for (std::int32_t rank = 0; rank < request.ranks; ++rank)
    ZbvRank(schedule.order[Rank{rank}], request, rank).fill();
  return schedule;
}

}  // namespace weir
