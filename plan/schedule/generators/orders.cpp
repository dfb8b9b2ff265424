// Warm-up orders, and the list scheduler: it takes, again and again, the action that can start
// earliest (docs/theory.md 2.4).
// SPDX-License-Identifier: Apache-2.0
#include "plan/schedule/generators/orders.hpp"

#include <limits>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>

namespace weir {
namespace {

constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();

class ListScheduler {
 public:
  ListScheduler(Schedule schedule, const ListRule& rule)
      : schedule_(std::move(schedule)),
        shape_(schedule_.shape),
        rule_(rule),
        free_(shape_.ranks),
        held_(shape_.ranks),
        best_of_(shape_.ranks),
        stages_of_(shape_.ranks),
        waiting_w_(shape_.ranks),
        next_f_(shape_.total_stages()),
        next_b_(next_f_),
        end_f_(shape_, kUnknown),
        end_i_(shape_, kUnknown) {
    for (const Stage stage : shape_.all_stages())
      stages_of_[shape_.rank_of(stage)].push_back(stage);
  }

  ScheduleOrReason run() {
    std::int64_t left = 0;
    for (const Stage stage : shape_.all_stages())
      left += microbatches_of(stage) * (rule_.split ? 3 : 2);
    for (const Rank rank : free_.ids()) consider(rank);
    // Ranks are looked at in ascending order, and only a smaller choice replaces a found one: equal
    // ones go to the lower rank.
    while (left-- > 0) {
      const std::optional<Choice>* best = nullptr;
      for (const std::optional<Choice>& one : best_of_) {
        if (one && (best == nullptr || one->order < (*best)->order)) best = &one;
      }
      if (best == nullptr) {
        return std::string("nothing may run: ") + std::to_string(rule_.most_in_flight) +
               " micro-batches in flight a rank are too few";
      }
      const Choice taken = **best;
      take(taken);
      // What has ended matters to its rank, and to the one that waits for its output.
      consider(taken.rank);
      const Action& action = taken.action;
      if (action.kind == ActionKind::F) {
        if (!shape_.is_last(action.stage)) consider(shape_.rank_of(action.stage + 1));
      } else if (action.kind != ActionKind::W && !shape_.is_first(action.stage)) {
        consider(shape_.rank_of(action.stage - 1));
      }
    }
    return std::move(schedule_);
  }

 private:
  [[nodiscard]] const ListRule::Times& times(Stage stage) const {
    return rule_.stages.empty() ? rule_.times : rule_.stages[Stage{stage.value % shape_.stages}];
  }
  // Smaller is better: earliest start, then kind, then depth, then rank.
  struct Choice {
    std::tuple<std::int64_t, int, std::int32_t, Rank> order;
    Action action;
    Rank rank;
  };

  // Replica r of n has the micro-batches [r M / n, (r + 1) M / n).
  [[nodiscard]] std::int32_t first_microbatch(Stage stage) const {
    return shape_.replica_of(stage) * shape_.microbatches / shape_.replicas;
  }
  [[nodiscard]] std::int32_t microbatches_of(Stage stage) const {
    return (shape_.replica_of(stage) + 1) * shape_.microbatches / shape_.replicas -
           first_microbatch(stage);
  }

  // What may start on a rank; of what starts at one time, the smaller kind, then the deeper stage.
  struct Offer {
    std::int64_t start = kUnknown;
    int kind_order = 0;
    std::int32_t depth_order = 0;
    Action action{};
    [[nodiscard]] auto order() const { return std::tie(start, kind_order, depth_order); }
  };
  static void offer(const Offer& one, Offer& best) {
    if (one.order() < best.order()) best = one;
  }

  // The rank's next action, as things are. Stages have their micro-batches in order, so what has
  // ended is a matter of counting; a limit counts from the start of F: a full rank may not begin
  // another.
  void consider(Rank rank) {
    Offer best;
    const bool room = rule_.most_in_flight == 0 || held_[rank] < rule_.most_in_flight;
    const std::int64_t free = free_[rank];
    for (const Stage stage : stages_of_[rank]) {
      const std::int32_t depth = shape_.stages - stage.value % shape_.stages;  // small: deep
      const Microbatch first{first_microbatch(stage)};
      const std::int32_t b = next_b_[stage], f = next_f_[stage];
      const bool last = shape_.is_last(stage), head = shape_.is_first(stage);
      if (b < f && (last || b < next_b_[stage + 1])) {
        const Microbatch m{first.value + b};
        const std::int64_t gradient = last ? 0 : end_i_(stage + 1, m);
        offer({std::max({end_f_(stage, m), gradient, free}),
               0,
               depth,
               {stage, rule_.split ? ActionKind::I : ActionKind::B, m}},
              best);
      }
      if (room && f < microbatches_of(stage) && (head || f < next_f_[stage - 1])) {
        const Microbatch m{first.value + f};
        const std::int64_t input = head ? 0 : end_f_(stage - 1, m);
        offer({std::max(input, free), 1, depth, {stage, ActionKind::F, m}}, best);
      }
    }
    // A W is always ready, so it starts when the rank is free; kind 2 lets it go after all others
    // that start then.
    if (!waiting_w_[rank].empty()) offer({free, 2, 0, waiting_w_[rank].front()}, best);
    best_of_[rank].reset();
    if (best.start != kUnknown)
      best_of_[rank] = {{best.start, best.kind_order, best.depth_order, rank}, best.action, rank};
  }

  void take(const Choice& choice) {
    const Action& action = choice.action;
    const Rank rank = choice.rank;
    const std::int64_t start = std::get<0>(choice.order);
    schedule_.order[rank].push_back(action);
    switch (action.kind) {
      case ActionKind::F:
        ++next_f_[action.stage];
        ++held_[rank];
        free_[rank] = end_f_[action] = start + times(action.stage).f;
        break;
      case ActionKind::W:
        waiting_w_[rank].pop();
        --held_[rank];
        free_[rank] = start + times(action.stage).w;
        break;
      default:
        ++next_b_[action.stage];
        free_[rank] = end_i_[action] =
            start + times(action.stage).i + (rule_.split ? 0 : times(action.stage).w);
        if (rule_.split) {
          waiting_w_[rank].push({action.stage, ActionKind::W, action.microbatch});
        } else {
          --held_[rank];
        }
    }
  }

  Schedule schedule_;
  const ScheduleShape shape_;
  const ListRule& rule_;
  Indexed<Rank, std::int64_t> free_;  // when it can start something
  Indexed<Rank, std::int32_t> held_;  // in flight
  Indexed<Rank, std::optional<Choice>> best_of_;
  Indexed<Rank, std::vector<Stage>> stages_of_;
  Indexed<Rank, std::queue<Action>> waiting_w_;
  Indexed<Stage, std::int32_t> next_f_, next_b_;
  Cells<std::int64_t> end_f_, end_i_;
};

}  // namespace

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
    if (i >= delay) add(ActionKind::W, i - delay);
  }
  for (std::int32_t i = std::max(0, m - delay); i < m; ++i) add(ActionKind::W, i);
}

ScheduleOrReason list_schedule(std::string name, const ScheduleShape& shape, const ListRule& rule) {
  return ListScheduler(empty_schedule(std::move(name), shape), rule).run();
}

}  // namespace weir
