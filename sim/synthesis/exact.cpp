// Depth first, the earliest start first.
// SPDX-License-Identifier: Apache-2.0
#include "sim/synthesis/exact.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace weir {
namespace {

constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();

class Search {
 public:
  Search(const SynthesisProblem& problem, std::int64_t below, std::int64_t most_nodes)
      : problem_(problem),
        below_(below),
        most_nodes_(most_nodes),
        ranks_(at(problem.shape.ranks)),
        done_(at(problem.shape.stages)),
        forward_(problem.shape, kUnknown),
        gradient_(problem.shape, kUnknown),
        free_(ranks_, 0),
        kept_(ranks_, 0),
        postponed_(at(problem.shape.stages), false),
        words_(problem.shape.ranks) {
    for (std::int32_t r = 0; r < problem.shape.ranks; ++r)
      stages_.push_back(problem.stages_of(Rank{r}));
    tail_.assign(done_.size(), problem.stages[0].w);
    for (std::size_t s = 1; s < done_.size(); ++s)
      tail_[s] = tail_[s - 1] + problem.stages[s - 1].i + problem.backward_ns[s];
    // From the end of F of a stage to the end of the step.
    down_.assign(done_.size(), 0);
    for (std::size_t s = done_.size(); s-- > 0;) {
      const bool last = s + 1 == done_.size();
      down_[s] = last ? problem.stages[s].i + tail_[s]
                      : problem.forward_ns[s] + problem.stages[s + 1].f + down_[s + 1];
    }
  }

  [[nodiscard]] ExactWords run() {
    const std::int64_t all = 3LL * problem_.shape.stages * problem_.shape.microbatches;
    descend(all);
    return {std::move(best_), below_, nodes_ <= most_nodes_, nodes_};
  }

 private:
  struct Done {
    std::int32_t f = 0, i = 0, w = 0;
  };
  struct Candidate {
    Action action;
    std::int64_t start = kUnknown, end = kUnknown;
  };

  [[nodiscard]] Candidate next_of(Stage stage, ActionKind kind) const {
    const Done& done = done_[stage.position()];
    const std::int32_t index = kind == ActionKind::F   ? done.f
                               : kind == ActionKind::I ? done.i
                                                       : done.w;
    // Micro-batches of a stage stay in order (docs/theory.md 4.4), so counts say which is next.
    if (index == problem_.shape.microbatches) return {};
    const Action action{stage, kind, Microbatch{index}};
    const auto rank = problem_.shape.rank_of(stage).position();
    std::int64_t inputs = 0;
    if (kind == ActionKind::W) {
      if (index >= done.i) return {};
    } else if (kind == ActionKind::F) {
      if (kept_[rank] + problem_.kept[stage.position()] > problem_.room[rank]) return {};
      if (!problem_.shape.is_first(stage)) {
        const Stage before{stage.value - 1};
        inputs = forward_(before, action.microbatch);
        if (inputs == kUnknown) return {};
        inputs += problem_.forward_ns[before.position()];
      }
    } else {
      if (index >= done.f) return {};
      if (!problem_.shape.is_last(stage)) {
        const Stage behind{stage.value + 1};
        inputs = gradient_(behind, action.microbatch);
        if (inputs == kUnknown) return {};
        inputs += problem_.backward_ns[behind.position()];
      }
    }
    const std::int64_t start = std::max(inputs, free_[rank]);
    return {action, start, start + problem_.stages[stage.position()].of(kind)};
  }

  [[nodiscard]] std::int64_t bound() const {
    std::int64_t bound = 0;
    const std::int32_t m = problem_.shape.microbatches;
    // docs/theory.md 3.2 of what each rank has left to do.
    for (std::size_t r = 0; r < ranks_; ++r) {
      std::int64_t all = 0, chain = 0, after = kUnknown;
      for (const Stage stage : stages_[r]) {
        const Done& done = done_[stage.position()];
        const SynthesisTimes& t = problem_.stages[stage.position()];
        all += (m - done.f) * t.f + (m - done.i) * t.i + (m - done.w) * t.w;
        chain += (m - done.f) * t.f + (m - done.i) * t.i;
        if (done.i < m) after = std::min(after, tail_[stage.position()]);
      }
      bound = std::max(bound, free_[r] + all);
      if (after != kUnknown) bound = std::max(bound, free_[r] + chain + after);
    }
    return bound;
  }

  // What an action's end means for those that wait for it, whatever their ranks do meanwhile.
  [[nodiscard]] std::int64_t path_after(const Candidate& next) const {
    const std::size_t s = next.action.stage.position();
    // The stage's later micro-batches follow this one, in order.
    const std::int32_t later = problem_.shape.microbatches - 1 - next.action.microbatch.value;
    const SynthesisTimes& t = problem_.stages[s];
    switch (next.action.kind) {
      case ActionKind::F:
        return next.end + later * t.f + down_[s];
      case ActionKind::I:
        return next.end + later * t.i + tail_[s];
      default:
        return next.end;
    }
  }

  // Same actions done, and nothing later than in a schedule met before: nothing to gain here. The
  // times that the future depends on are the ranks' and those of outputs not yet used.
  [[nodiscard]] bool met_before() {
    std::vector<std::int32_t> key;
    std::vector<std::int64_t> times(free_);
    for (std::size_t s = 0; s < done_.size(); ++s) {
      const Done& done = done_[s];
      key.insert(key.end(), {done.f, done.i, done.w, postponed_[s] ? 1 : 0});
      const Stage stage{static_cast<std::int32_t>(s)};
      if (s + 1 < done_.size()) {
        for (std::int32_t b = done_[s + 1].f; b < done.f; ++b)
          times.push_back(forward_(stage, Microbatch{b}));
      }
      if (s > 0) {
        for (std::int32_t b = done_[s - 1].i; b < done.i; ++b)
          times.push_back(gradient_(stage, Microbatch{b}));
      }
    }
    auto& seen = seen_[key];
    const auto no_later = [&times](const std::vector<std::int64_t>& other) {
      return std::ranges::equal(other, times, std::ranges::less_equal{});
    };
    if (std::ranges::any_of(seen, no_later)) return true;
    std::erase_if(seen, [&times](const std::vector<std::int64_t>& other) {
      return std::ranges::equal(times, other, std::ranges::less_equal{});
    });
    // What is not remembered is only searched again.
    constexpr std::size_t kMostOfAKey = 24;
    if (seen.size() < kMostOfAKey && remembered_ < kMostRemembered) {
      seen.push_back(std::move(times));
      ++remembered_;
    }
    return false;
  }

  void descend(std::int64_t left) {
    if (++nodes_ > most_nodes_) return;
    if (left == 0) {
      const std::int64_t makespan = *std::ranges::max_element(free_);
      if (makespan >= below_) return;
      below_ = makespan;
      best_ = words_;
      return;
    }
    if (bound() >= below_ || met_before()) return;
    std::vector<Candidate> all;
    Candidate first;
    for (std::size_t s = 0; s < done_.size(); ++s) {
      const Stage stage{static_cast<std::int32_t>(s)};
      for (const ActionKind kind : {ActionKind::I, ActionKind::F, ActionKind::W}) {
        const Candidate one = next_of(stage, kind);
        if (one.start == kUnknown) continue;
        if (kind == ActionKind::F && postponed_[s]) continue;
        if (path_after(one) >= below_ && kind != ActionKind::W) return;  // it only gets later
        all.push_back(one);
        if (one.end < first.end) first = one;
      }
    }
    if (first.end == kUnknown) return;  // every F waits for room that nothing will give back
    const Rank rank = problem_.shape.rank_of(first.action.stage);
    // Giffler and Thompson: some schedule in which nothing could start earlier goes on with the
    // rank of the earliest end, by an action that starts before it.
    std::erase_if(all, [&](const Candidate& one) {
      return problem_.shape.rank_of(one.action.stage) != rank || one.start >= first.end;
    });
    // The earliest start first: good schedules come early, and cut off more.
    std::ranges::stable_sort(all, {}, &Candidate::start);
    for (const Candidate& one : all) take(one, left);
    // What an F keeps may be worth more to another that comes later.
    if (first.action.kind == ActionKind::F && tight(rank)) {
      postponed_[first.action.stage.position()] = true;
      descend(left);
      postponed_[first.action.stage.position()] = false;
    }
  }

  // Whether the rank could ever want more room than there is.
  [[nodiscard]] bool tight(Rank rank) const {
    std::int64_t most = 0;
    for (const Stage stage : stages_[rank.position()])
      most += problem_.kept[stage.position()] *
              (problem_.shape.microbatches - done_[stage.position()].w);
    return most > problem_.room[rank.position()];
  }

  void take(const Candidate& next, std::int64_t left) {
    const Action& action = next.action;
    const Rank rank = problem_.shape.rank_of(action.stage);
    const auto r = rank.position(), s = action.stage.position();
    const std::int64_t free_before = std::exchange(free_[r], next.end);
    std::vector<bool> postponed_before = postponed_;
    // Once the rank has gone on, an F that was left for later may be next again.
    for (const Stage stage : stages_[r]) postponed_[stage.position()] = false;
    const std::int64_t each = problem_.kept[s];
    Done& done = done_[s];
    const Done done_before = done;
    const std::int64_t kept_before = kept_[r];
    if (action.kind == ActionKind::F) {
      ++done.f;
      kept_[r] += each;
      forward_[action] = next.end;
    } else if (action.kind == ActionKind::I) {
      ++done.i;
      gradient_[action] = next.end;
    } else {
      ++done.w;
      kept_[r] -= each;
    }
    words_[rank].push_back(action);
    descend(left - 1);
    words_[rank].pop_back();
    if (action.kind == ActionKind::F) forward_[action] = kUnknown;
    if (action.kind == ActionKind::I) gradient_[action] = kUnknown;
    done_[s] = done_before;
    kept_[r] = kept_before;
    postponed_ = std::move(postponed_before);
    free_[r] = free_before;
  }

  static constexpr std::int64_t kMostRemembered = 400'000;
  const SynthesisProblem& problem_;
  std::int64_t below_, most_nodes_, nodes_ = 0, remembered_ = 0;
  std::size_t ranks_;
  std::vector<Done> done_;
  Cells<std::int64_t> forward_, gradient_;
  std::vector<std::int64_t> free_, kept_;
  std::vector<bool> postponed_;  // by stage
  Words words_;
  std::vector<std::vector<Stage>> stages_;
  std::vector<std::int64_t> tail_, down_;
  std::map<std::vector<std::int32_t>, std::vector<std::vector<std::int64_t>>> seen_;
  std::optional<Words> best_;
};

}  // namespace

ExactWords exact_words(const SynthesisProblem& problem, std::int64_t below,
                       std::int64_t most_nodes) {
  return Search(problem, below, most_nodes).run();
}

}  // namespace weir
