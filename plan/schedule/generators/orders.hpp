// What several generators share: warm-up patterns and placements of stages.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "plan/schedule/generators/generators.hpp"

namespace weir {

// `warmup` forwards, then a forward and a backward in turn, then the backwards that are left;
// `count` of each.
template <class Forward, class Backward>
void warm_up_and_alternate(std::vector<Action>& order, std::int32_t count, std::int32_t warmup,
                           Forward forward, Backward backward) {
  const std::int32_t first = std::min(warmup, count);
  for (std::int32_t i = 0; i < first; ++i) order.push_back(forward(i));
  for (std::int32_t i = 0; i < count; ++i) {
    if (first + i < count) order.push_back(forward(first + i));
    order.push_back(backward(i));
  }
}

// An empty schedule of a shape, to be filled rank by rank.
[[nodiscard]] Schedule empty_schedule(std::string name, ScheduleShape shape);

// v waves down and up: stage s sits on rank s % K in even waves, on K-1 - s % K in odd ones.
[[nodiscard]] ScheduleShape zigzag_shape(std::int32_t ranks, std::int32_t chunks,
                                         std::int32_t microbatches);

// Rank k warms up with `warmup_per_rank` (K-k-1) forwards, then alternates F and B, then drains;
// one stage a rank.
[[nodiscard]] Schedule alternating_schedule(const char* name, const ScheduleRequest& request,
                                            std::int32_t warmup_per_rank);

// One rank of a schedule that splits backwards: `warmup` forwards; then F, I and, from the
// `delay`-th on, W.
struct SplitRank {
  std::int32_t rank = 0, microbatches = 1, warmup = 0, delay = 0;
};
void split_rank(std::vector<Action>& order, const SplitRank& split);

}  // namespace weir
