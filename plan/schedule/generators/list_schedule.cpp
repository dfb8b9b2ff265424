// The list scheduler: it takes, again and again, the action that can start earliest (docs/theory.md
// 2.4), and repeats a round of many micro-batches once it has come round to where it was.
// SPDX-License-Identifier: Apache-2.0
#include "plan/schedule/generators/list_schedule.hpp"

#include <algorithm>
#include <deque>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "plan/schedule/generators/orders.hpp"

namespace weir {
namespace {

constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();
// Kinds in the order in which they go first.
constexpr std::int32_t kBackward = 0, kForward = 1, kWeight = 2;

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
        ready_(shape_.total_stages()),
        end_f_(shape_, kUnknown),
        end_i_(shape_, kUnknown) {
    // Replica r of n has the micro-batches [r M / n, (r + 1) M / n).
    const auto border = [this](std::int32_t replica) {
      return replica * shape_.microbatches / shape_.replicas;
    };
    for (const Stage stage : shape_.all_stages()) {
      stages_of_[shape_.rank_of(stage)].push_back(stage);
      const std::int32_t replica = shape_.replica_of(stage);
      first_.push_back(border(replica));
      count_.push_back(border(replica + 1) - border(replica));
      depth_.push_back(shape_.stages - stage.value % shape_.stages);
    }
  }

  ScheduleOrReason run() {
    std::int64_t left = 0;
    for (const Stage stage : shape_.all_stages()) left += count_[stage] * (rule_.split ? 3 : 2);
    consider_all();
    // Ranks are looked at in ascending order, and only a smaller choice replaces a found one: equal
    // ones go to the lower rank.
    while (left > 0) {
      Rank rank{0};
      for (const Rank other : best_of_.ids()) {
        if (best_of_[other].before(best_of_[rank])) rank = other;
      }
      const Choice taken = best_of_[rank];
      if (taken.start == kUnknown) {
        return std::string("nothing may run: ") + std::to_string(rule_.most_in_flight) +
               " micro-batches in flight a rank are too few";
      }
      take(rank, taken);
      --left;
      // What has ended matters to its stage, and to the one that waits for its output.
      const Action& action = taken.action;
      // Nobody waits for a W but its own rank.
      if (action.kind != ActionKind::W) {
        look_again(action.stage);
        const bool forward = action.kind == ActionKind::F;
        if (!(forward ? shape_.is_last(action.stage) : shape_.is_first(action.stage))) {
          const Stage user = forward ? action.stage + 1 : action.stage - 1;
          look_again(user);
          if (shape_.rank_of(user) != rank) consider(shape_.rank_of(user));
        }
      }
      consider(rank);
      if (is_backward(action.kind) && action.stage == Stage{0}) left -= repeat_rounds();
    }
    return std::move(schedule_);
  }

 private:
  [[nodiscard]] const ListRule::Times& times(Stage stage) const {
    return rule_.stages.empty() ? rule_.times : rule_.stages[Stage{stage.value % shape_.stages}];
  }
  // What may start next: of several the earliest, of those that start at one time the smaller kind,
  // then the deeper stage; of ranks the lower.
  struct Choice {
    std::int64_t start = kUnknown;  // none may
    std::int32_t kind = 0, depth = 0;
    Action action{};
    [[nodiscard]] bool before(const Choice& other) const {
      if (start != other.start) return start < other.start;
      return std::tie(kind, depth) < std::tie(other.kind, other.depth);
    }
  };

  // When the stage's next F, and its next I or B, has all that it waits for; kUnknown: that is
  // still to come. Stages have their micro-batches in order, so what has ended is a matter of
  // counting.
  struct Ready {
    std::int64_t forward = kUnknown, backward = kUnknown;
  };
  void look_again(Stage stage) {
    Ready& ready = ready_[stage] = {};
    const std::int32_t first = first_[stage];
    const std::int32_t b = next_b_[stage], f = next_f_[stage];
    const bool last = shape_.is_last(stage), head = shape_.is_first(stage);
    if (b < f && (last || b < next_b_[stage + 1])) {
      const Microbatch m{first + b};
      ready.backward = std::max(end_f_(stage, m), last ? 0 : end_i_(stage + 1, m));
    }
    if (f < count_[stage] && (head || f < next_f_[stage - 1]))
      ready.forward = head ? 0 : end_f_(stage - 1, Microbatch{first + f});
  }

  // The rank's next action, as things are. A limit counts from the start of F: a full rank may not
  // begin another.
  void consider(Rank rank) {
    Choice best;
    const bool room = rule_.most_in_flight == 0 || held_[rank] < rule_.most_in_flight;
    const std::int64_t free = free_[rank];
    const auto offer = [&best, this](std::int64_t start, std::int32_t kind, Stage stage) {
      const Choice one{start, kind, depth_[stage], {stage, {}, {}}};
      if (one.before(best)) best = one;
    };
    for (const Stage stage : stages_of_[rank]) {
      const Ready& ready = ready_[stage];
      if (ready.backward != kUnknown) offer(std::max(ready.backward, free), kBackward, stage);
      if (room && ready.forward != kUnknown) offer(std::max(ready.forward, free), kForward, stage);
    }
    // A W is always ready, so it starts when the rank is free, after all others that start then.
    if (!waiting_w_[rank].empty()) {
      const Choice weight{free, kWeight, 0, waiting_w_[rank].front()};
      if (weight.before(best)) best = weight;
    }
    Action& action = best.action;
    if (best.kind == kBackward) {
      action.kind = rule_.split ? ActionKind::I : ActionKind::B;
      action.microbatch = Microbatch{first_[action.stage] + next_b_[action.stage]};
    } else if (best.kind == kForward) {
      action.kind = ActionKind::F;
      action.microbatch = Microbatch{first_[action.stage] + next_f_[action.stage]};
    }
    best_of_[rank] = best;
  }

  void consider_all() {
    for (const Stage stage : shape_.all_stages()) look_again(stage);
    for (const Rank rank : free_.ids()) consider(rank);
  }

  void take(Rank rank, const Choice& choice) {
    const Action& action = choice.action;
    const std::int64_t start = choice.start;
    schedule_.order[rank].push_back(action);
    switch (action.kind) {
      case ActionKind::F:
        ++next_f_[action.stage];
        ++held_[rank];
        free_[rank] = end_f_[action] = start + times(action.stage).f;
        break;
      case ActionKind::W:
        waiting_w_[rank].pop_front();
        --held_[rank];
        free_[rank] = start + times(action.stage).w;
        break;
      default:
        ++next_b_[action.stage];
        free_[rank] = end_i_[action] =
            start + times(action.stage).i + (rule_.split ? 0 : times(action.stage).w);
        if (rule_.split) {
          waiting_w_[rank].push_back({action.stage, ActionKind::W, action.microbatch});
        } else {
          --held_[rank];
        }
    }
  }

  // Where things stood when the first stage had ended a backward.
  struct Mark {
    std::int32_t microbatches = 0;  // of which it had
    std::int64_t time = 0;
    // All that later choices depend on but the number of micro-batches left, as distances from the
    // two above.
    std::vector<std::int64_t> state{};
    Indexed<Rank, std::size_t> taken{};  // actions
  };

  [[nodiscard]] Mark mark() const {
    Mark mark{.microbatches = next_b_[Stage{0}], .time = free_[shape_.rank_of(Stage{0})]};
    const auto add = [&state = mark.state](std::int64_t value) { state.push_back(value); };
    for (const Rank rank : free_.ids()) {
      mark.taken.push_back(schedule_.order[rank].size());
      add(free_[rank] - mark.time);
      add(held_[rank]);
      add(std::ssize(waiting_w_[rank]));
      for (const Action& w : waiting_w_[rank]) {
        add(w.stage.value);
        add(w.microbatch.value - mark.microbatches);
      }
    }
    for (const Stage stage : shape_.all_stages()) {
      const std::int32_t first = first_[stage];
      add(next_f_[stage] - mark.microbatches);
      add(next_b_[stage] - mark.microbatches);
      // An output that waits for its rank may have come at any time before that is free.
      const auto there = [&](std::int64_t end, Stage user) {
        add(std::max(end, free_[shape_.rank_of(user)]) - mark.time);
      };
      if (!shape_.is_last(stage)) {
        for (std::int32_t m = next_f_[stage + 1]; m < next_f_[stage]; ++m)
          there(end_f_(stage, Microbatch{first + m}), stage + 1);
      }
      if (!shape_.is_first(stage)) {
        for (std::int32_t m = next_b_[stage - 1]; m < next_b_[stage]; ++m)
          there(end_i_(stage, Microbatch{first + m}), stage - 1);
      }
    }
    return mark;
  }

  // Brent's search for a cycle: each mark is compared with a saved one, and saved anew after 1, 2,
  // 4, ... of them. Where a state comes back, so do the choices that followed it, until a stage has
  // begun its last micro-batch. Returns how many actions were added.
  std::int64_t repeat_rounds() {
    if (repeated_) return 0;
    Mark now = mark();
    if (saved_ && now.state == saved_->state) {
      repeated_ = true;
      return repeat(*saved_, now);
    }
    if (++since_saved_ < window_) return 0;
    saved_ = std::move(now);
    since_saved_ = 0;
    window_ *= 2;
    return 0;
  }

  // What was taken between two marks of one state, as often as every stage has micro-batches to
  // begin at each choice.
  std::int64_t repeat(const Mark& from, const Mark& to) {
    const std::int32_t each = to.microbatches - from.microbatches;
    // So many that no stage begins its last micro-batch meanwhile; from there on choices differ.
    std::int32_t rounds = shape_.microbatches;
    for (const Stage stage : shape_.all_stages())
      rounds = std::min(rounds, (count_[stage] - 1 - next_f_[stage]) / each);
    if (rounds <= 0) return 0;
    const std::int32_t skipped = rounds * each;
    const std::int64_t later = rounds * (to.time - from.time);
    std::int64_t added = 0;
    for (const Rank rank : free_.ids()) {
      auto& order = schedule_.order[rank];
      const std::size_t first = from.taken[rank], last = order.size();
      for (std::int32_t round = 1; round <= rounds; ++round) {
        for (std::size_t p = first; p < last; ++p) {
          Action again = order[p];
          again.microbatch.value += round * each;
          order.push_back(again);
        }
      }
      added += std::ssize(order) - static_cast<std::int64_t>(last);
      free_[rank] += later;
      for (Action& w : waiting_w_[rank]) w.microbatch.value += skipped;
    }
    // Before the counts move, which say which ends are still to be read.
    for (const Stage stage : shape_.all_stages()) shift_ends(stage, skipped, later);
    for (const Stage stage : shape_.all_stages()) {
      next_f_[stage] += skipped;
      next_b_[stage] += skipped;
    }
    consider_all();
    return added;
  }
  // Ends that are still to be read are those of as many micro-batches later; from the last down,
  // since the two may overlap.
  void shift_ends(Stage stage, std::int32_t skipped, std::int64_t later) {
    const std::int32_t first = first_[stage];
    for (std::int32_t m = next_f_[stage]; m-- > next_b_[stage];)
      end_f_(stage, Microbatch{first + m + skipped}) = end_f_(stage, Microbatch{first + m}) + later;
    if (shape_.is_first(stage)) return;
    for (std::int32_t m = next_b_[stage]; m-- > next_b_[stage - 1];)
      end_i_(stage, Microbatch{first + m + skipped}) = end_i_(stage, Microbatch{first + m}) + later;
  }

  Schedule schedule_;
  const ScheduleShape shape_;
  const ListRule& rule_;
  Indexed<Rank, std::int64_t> free_;  // when it can start something
  Indexed<Rank, std::int32_t> held_;  // in flight
  Indexed<Rank, Choice> best_of_;
  Indexed<Rank, std::vector<Stage>> stages_of_;
  Indexed<Rank, std::deque<Action>> waiting_w_;
  Indexed<Stage, std::int32_t> first_, count_;  // micro-batches
  Indexed<Stage, std::int32_t> depth_;          // small: deep
  Indexed<Stage, std::int32_t> next_f_, next_b_;
  Indexed<Stage, Ready> ready_;
  Cells<std::int64_t> end_f_, end_i_;
  std::optional<Mark> saved_;
  std::int32_t since_saved_ = 0, window_ = 1;  // marks since, and until the next is saved
  bool repeated_ = false;
};

}  // namespace

ScheduleOrReason list_schedule(std::string name, const ScheduleShape& shape, const ListRule& rule) {
  return ListScheduler(empty_schedule(std::move(name), shape), rule).run();
}

}  // namespace weir
