// DualPipe's eight steps, numbered as in the header.
// SPDX-License-Identifier: Apache-2.0
#include "plan/schedule/generators/dual_flow.hpp"

#include <queue>
#include <utility>

namespace weir {
namespace {

class RankOrder {
 public:
  RankOrder(FlowPhase zero, FlowPhase one, std::vector<Action>& order,
            std::vector<std::int32_t>& overlapped)
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
    // 1: phase 0's forwards, two for each rank between here and the turn.
    for (std::int32_t i = 0; i < 2 * before; ++i) f(0);
    // 2: both phases forward, now that phase 1's micro-batches come back up.
    for (std::int32_t i = 0; i <= r; ++i) {
      f(0);
      f(1);
    }
    // 3: phase 1's first backwards, split, so that gradients leave early.
    for (std::int32_t i = 0; i < before; ++i) {
      z(1);
      w();
      f(1);
    }
    // 4: the steady state, each forward paired with a backward of the other phase.
    for (std::int32_t i = 0; i < m - 2 * ranks + r + 1; ++i) {
      if (i == 0 && r == ranks - 1) {
        // On the last rank the flow turns: the first backward needs the forward just made, and
        // the two cannot overlap.
        f(0);
        b(1);
      } else {
        pair(0, 1);
      }
      pair(1, 0);
    }
    // 5: phase 0 has no forwards left.
    for (std::int32_t i = 0; i < before; ++i) {
      b(1);
      pair(1, 0);
    }
    // 6: neither has; the second half leaves its W for later, so that gradients leave early.
    bool split = false;
    for (std::int32_t i = 0; i <= r; ++i) {
      if (i == (r + 1) / 2 && r % 2 == 1) split = true;
      split ? z(1) : b(1);
      if (i == (r + 1) / 2 && r % 2 == 0) split = true;
      split ? z(0) : b(0);
    }
    // 7: phase 0's last gradients, and the W that were put off.
    for (std::int32_t i = 0; i < before; ++i) {
      w();
      z(0);
    }
    // 8: the W that are left.
    while (!later_.empty()) w();
  }

 private:
  void add(int p, ActionKind kind, std::int32_t i) {
    order_.push_back({phases_[p].stage, kind, Microbatch{phases_[p].first_microbatch + i}});
  }
  FlowPhase phases_[2];
  std::vector<Action>& order_;
  std::vector<std::int32_t>& overlapped_;
  std::int32_t next_f_[2] = {0, 0}, next_b_[2] = {0, 0};
  std::queue<std::pair<int, std::int32_t>> later_;
};

}  // namespace

void fill_dual_flow(const DualFlow& flow, std::vector<Action>& order,
                    std::vector<std::int32_t>& overlapped) {
  RankOrder(flow.zero, flow.one, order, overlapped).run(flow.rank, flow.ranks, flow.microbatches);
}

}  // namespace weir
