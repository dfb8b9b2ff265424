// DualPipe (DeepSeek-V3 technical report, 2024, section 3.2.1) and its cut-in-half DualPipeV: forwards and backwards of
// two flows meet on every rank and are overlapped in pairs. On a rank of DualPipeV, phase 0 is stage r, phase 1 stage
// 2R-1-r; DualPipe on K ranks is DualPipeV on K/2 run from both ends, phase 1 being the other direction's
// micro-batches.
//
//   step  what rank r of R does                                  (F, B of phase p; z: I now, its W later)
//   1     2(R-r-1) x F0          5   (R-r-1) x [B1, F1&B0]
//   2     (r+1) x [F0, F1]       6   (r+1) x [B1, B0], the second half of them z
//   3     (R-r-1) x [z1, W, F1]  7   (R-r-1) x [W, z0]
//   4     (M-2R+r+1) x [F0&B1, F1&B0]      8   (r+1) x W
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <queue>

#include "plan/schedules/orders.hpp"

namespace weir {
namespace {

// Where a phase's i-th micro-batch is.
struct Phase {
  Stage stage;
  std::int32_t first_microbatch = 0;
};

class RankOrder {
 public:
  RankOrder(Phase zero, Phase one, std::vector<Action>& order, std::vector<std::int32_t>& overlapped)
      : phases_{zero, one}, order_(order), overlapped_(overlapped) {}

  void f(int p) { add(p, ActionKind::F, next_f_[p]++); }
  void b(int p) { add(p, ActionKind::B, next_b_[p]++); }
  void z(int p) {
    const std::int32_t i = next_b_[p]++;
    add(p, ActionKind::I, i);
    later_.push({p, i});
  }
  void w() {
    const auto [p, i] = later_.front();
    later_.pop();
    add(p, ActionKind::W, i);
  }
  void pair(int forward, int backward) {
    overlapped_.push_back(static_cast<std::int32_t>(order_.size()));
    f(forward);
    b(backward);
  }

  void run(std::int32_t r, std::int32_t ranks, std::int32_t m) {
    const std::int32_t before = ranks - r - 1;
    for (std::int32_t i = 0; i < 2 * before; ++i) f(0);
    for (std::int32_t i = 0; i <= r; ++i) {
      f(0);
      f(1);
    }
    for (std::int32_t i = 0; i < before; ++i) {
      z(1);
      w();
      f(1);
    }
    for (std::int32_t i = 0; i < m - 2 * ranks + r + 1; ++i) {
      if (i == 0 && r == ranks - 1) {  // the turn: phase 1's backward needs phase 0's forward just made
        f(0);
        b(1);
      } else {
        pair(0, 1);
      }
      pair(1, 0);
    }
    for (std::int32_t i = 0; i < before; ++i) {
      b(1);
      pair(1, 0);
    }
    bool split = false;
    for (std::int32_t i = 0; i <= r; ++i) {
      if (i == (r + 1) / 2 && r % 2 == 1) split = true;
      split ? z(1) : b(1);
      if (i == (r + 1) / 2 && r % 2 == 0) split = true;
      split ? z(0) : b(0);
    }
    for (std::int32_t i = 0; i < before; ++i) {
      w();
      z(0);
    }
    while (!later_.empty()) w();
  }

 private:
  void add(int p, ActionKind kind, std::int32_t i) {
    order_.push_back({phases_[p].stage, kind, Microbatch{phases_[p].first_microbatch + i}});
  }
  Phase phases_[2];
  std::vector<Action>& order_;
  std::vector<std::int32_t>& overlapped_;
  std::int32_t next_f_[2] = {0, 0}, next_b_[2] = {0, 0};
  std::queue<std::pair<int, std::int32_t>> later_;
};

}  // namespace

ScheduleOrReason make_dualpipev(const ScheduleRequest& request) {
  const std::int32_t k = request.ranks, m = request.microbatches;
  if (request.chunks != 2) return std::string("dualpipev has two stages a rank: v must be 2");
  if (m < 2 * k) return fmt::format("dualpipev needs M of at least 2K = {}; M = {}", 2 * k, m);
  Schedule schedule = empty_schedule("dualpipev", v_shape(k, m));
  schedule.overlapped.resize(static_cast<std::size_t>(k));
  for (std::int32_t r = 0; r < k; ++r) {
    const auto i = static_cast<std::size_t>(r);
    RankOrder({Stage{r}, 0}, {Stage{2 * k - 1 - r}, 0}, schedule.order[i], schedule.overlapped[i]).run(r, k, m);
  }
  return schedule;
}

ScheduleOrReason make_dualpipe(const ScheduleRequest& request) {
  const std::int32_t k = request.ranks, m = request.microbatches;
  if (request.chunks != 1) return std::string("dualpipe has one stage a rank and direction: v must be 1");
  if (k % 2 != 0 || m % 2 != 0) return fmt::format("dualpipe needs even K and M; K = {}, M = {}", k, m);
  if (m < 2 * k) return fmt::format("dualpipe needs M of at least 2K = {}; M = {}", 2 * k, m);
  Schedule schedule = empty_schedule("dualpipe", bidirectional_shape(k, m));
  schedule.overlapped.resize(static_cast<std::size_t>(k));
  for (std::int32_t rank = 0; rank < k; ++rank) {
    const bool upper = rank < k / 2;
    const std::int32_t r = upper ? rank : k - 1 - rank;
    // Direction 0 runs down from rank 0 with the first half of the micro-batches, direction 1 up from rank K-1.
    const Phase down{Stage{rank}, 0}, up{Stage{k + (k - 1 - rank)}, m / 2};
    const auto i = static_cast<std::size_t>(rank);
    RankOrder(upper ? down : up, upper ? up : down, schedule.order[i], schedule.overlapped[i]).run(r, k / 2, m / 2);
  }
  return schedule;
}

}  // namespace weir
