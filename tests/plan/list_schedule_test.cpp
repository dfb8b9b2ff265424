// List schedules against the rule itself, applied to every action anew.
// SPDX-License-Identifier: Apache-2.0
#include "plan/schedule/generators/list_schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "plan/schedule/generators/orders.hpp"

namespace weir::list_schedule_test {
namespace {

// Looks at every stage for every action, and knows what has ended by a map.
class ByTheRule {
 public:
  ByTheRule(const ScheduleShape& shape, const ListRule& rule) : shape_(shape), rule_(rule) {}

  std::vector<std::vector<Action>> orders() {
    for (;;) {
      std::optional<Choice> best;
      for (const Stage stage : shape_.all_stages()) {
        for (const ActionKind kind : {ActionKind::I, ActionKind::F, ActionKind::W}) {
          const auto one = next_of(stage, kind);
          if (one && (!best || *one < *best)) best = one;
        }
      }
      if (!best) break;
      const auto& [start, kind_order, depth, rank, stage, microbatch] = *best;
      const ActionKind kind = kKinds[kind_order];
      const ListRule::Times& t = times(stage);
      const std::int64_t length = kind == ActionKind::F   ? t.f
                                  : kind == ActionKind::W ? t.w
                                  : rule_.split           ? t.i
                                                          : t.i + t.w;
      ends_[{stage, kind, microbatch}] = free_[rank] = start + length;
      ++begun_[{stage, kind}];
      const bool whole = kind == ActionKind::I && !rule_.split;
      orders_[rank].push_back({Stage{stage}, whole ? ActionKind::B : kind, Microbatch{microbatch}});
      if (kind == ActionKind::F) ++held_[rank];
      if (kind == ActionKind::W || whole) --held_[rank];
      if (kind == ActionKind::I && rule_.split)
        waiting_[rank].push_back({Stage{stage}, ActionKind::W, Microbatch{microbatch}});
      if (kind == ActionKind::W) waiting_[rank].erase(waiting_[rank].begin());
    }
    std::vector<std::vector<Action>> all;
    for (std::int32_t rank = 0; rank < shape_.ranks; ++rank) all.push_back(orders_[rank]);
    return all;
  }

 private:
  static constexpr ActionKind kKinds[] = {ActionKind::I, ActionKind::F, ActionKind::W};
  using Choice = std::tuple<std::int64_t, int, std::int32_t, std::int32_t, std::int32_t, int>;

  [[nodiscard]] const ListRule::Times& times(std::int32_t stage) const {
    return rule_.stages.empty() ? rule_.times : rule_.stages[Stage{stage % shape_.stages}];
  }
  [[nodiscard]] std::optional<std::int64_t> end(std::int32_t stage, ActionKind kind, int m) const {
    const auto found = ends_.find({stage, kind, m});
    return found == ends_.end() ? std::nullopt : std::optional(found->second);
  }
  // The stage's first micro-batch that has not had this yet.
  [[nodiscard]] std::optional<Choice> next_of(Stage of, ActionKind kind) {
    const std::int32_t stage = of.value, rank = shape_.rank_of(of).value;
    const std::int32_t replica = shape_.replica_of(of);
    const std::int32_t first = replica * shape_.microbatches / shape_.replicas,
                       last = (replica + 1) * shape_.microbatches / shape_.replicas;
    const std::int32_t depth = shape_.stages - stage % shape_.stages;
    if (kind == ActionKind::W) {
      if (waiting_[rank].empty() || waiting_[rank].front().stage != of) return std::nullopt;
      return Choice{free_[rank], 2, 0, rank, stage, waiting_[rank].front().microbatch.value};
    }
    const std::int32_t m = first + begun_[{stage, kind}];
    if (m == last) return std::nullopt;
    std::int64_t ready = 0;
    if (kind == ActionKind::F) {
      if (rule_.most_in_flight > 0 && held_[rank] >= rule_.most_in_flight) return std::nullopt;
      if (!shape_.is_first(of)) {
        const auto input = end(stage - 1, ActionKind::F, m);
        if (!input) return std::nullopt;
        ready = *input;
      }
      return Choice{std::max(ready, free_[rank]), 1, depth, rank, stage, m};
    }
    const auto own = end(stage, ActionKind::F, m);
    if (!own) return std::nullopt;
    ready = *own;
    if (!shape_.is_last(of)) {
      const auto gradient = end(stage + 1, ActionKind::I, m);
      if (!gradient) return std::nullopt;
      ready = std::max(ready, *gradient);
    }
    return Choice{std::max(ready, free_[rank]), 0, depth, rank, stage, m};
  }

  const ScheduleShape& shape_;
  const ListRule& rule_;
  std::map<std::tuple<std::int32_t, ActionKind, int>, std::int64_t> ends_;
  std::map<std::pair<std::int32_t, ActionKind>, std::int32_t> begun_;
  std::map<std::int32_t, std::int64_t> free_;
  std::map<std::int32_t, std::int32_t> held_;
  std::map<std::int32_t, std::vector<Action>> waiting_, orders_;
};

ScheduleShape drawn_shape(std::mt19937& random, std::int32_t microbatches) {
  const auto any = [&](int low, int high) {
    return std::uniform_int_distribution(low, high)(random);
  };
  switch (any(0, 3)) {
    case 0:
      return looped_shape(any(1, 4), any(1, 3), microbatches);
    case 1:
      return v_shape(any(2, 4), microbatches);
    case 2:
      return bidirectional_shape(2 * any(1, 2), microbatches);
    default:
      return zigzag_shape(any(2, 3), 2 * any(1, 2), microbatches);
  }
}

// With few micro-batches nothing comes round before the end, with many most rounds are repeated.
TEST(ListSchedule, FollowsItsRuleToTheLastMicrobatch) {
  int complete = 0;
  for (unsigned seed = 1; seed <= 120; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto any = [&](int low, int high) {
      return std::uniform_int_distribution(low, high)(random);
    };
    const ScheduleShape shape = drawn_shape(random, any(1, 48));
    ListRule rule;
    rule.split = any(0, 1) == 1;
    if (any(0, 1) == 1) {
      for (int s = 0; s < shape.stages; ++s)
        rule.stages.push_back({any(1, 3), any(1, 3), any(0, 3)});
    }
    if (any(0, 2) > 0) rule.most_in_flight = shape.stages / shape.ranks * any(1, 2 * shape.ranks);
    const auto expected = ByTheRule(shape, rule).orders();
    const auto made = list_schedule("rule", shape, rule);
    std::size_t actions = 0;
    for (const auto& order : expected) actions += order.size();
    const std::size_t all =
        at(shape.total_stages() / shape.replicas * shape.microbatches) * (rule.split ? 3 : 2);
    const auto* schedule = std::get_if<Schedule>(&made);
    ASSERT_EQ(schedule != nullptr, actions == all);
    if (schedule == nullptr) continue;
    ++complete;
    EXPECT_EQ(schedule->order.values(), expected);
  }
  EXPECT_GT(complete, 70);
}

}  // namespace
}  // namespace weir::list_schedule_test
