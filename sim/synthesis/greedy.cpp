// List scheduling by a rule.
// SPDX-License-Identifier: Apache-2.0
#include "sim/synthesis/greedy.hpp"

#include <algorithm>
#include <limits>

namespace weir {
namespace {

constexpr std::int64_t kNoneYet = std::numeric_limits<std::int64_t>::max();

class List {
 public:
  List(const SynthesisProblem& problem, const GreedyRule& rule)
      : problem_(problem),
        rule_(rule),
        words_(problem.shape.ranks),
        free_(problem.shape.ranks, 0),
        kept_(problem.shape.ranks, 0),
        done_(problem.shape.stages),
        forward_(problem.shape, kNoneYet),
        gradient_(problem.shape, kNoneYet) {
    for (std::int32_t r = 0; r < problem.shape.ranks; ++r) {
      stages_.push_back(problem.stages_of(Rank{r}));
      left_ += static_cast<std::int64_t>(stages_.back().size()) * 3 * problem.shape.microbatches;
    }
  }

  [[nodiscard]] std::optional<Words> run() {
    for (; left_ > 0; --left_) {
      Candidate next;
      for (std::int32_t r = 0; r < problem_.shape.ranks; ++r) {
        const Candidate own = choice_of(Rank{r});
        if (own.start < next.start) next = own;  // ties go to the lower rank
      }
      if (next.start == kNoneYet) return std::nullopt;
      commit(next);
    }
    return std::move(words_);
  }

 private:
  struct Done {
    std::int32_t f = 0, i = 0, w = 0;
  };
  struct Candidate {
    Action action;
    std::int64_t start = kNoneYet;
  };

  [[nodiscard]] std::int64_t length(const Action& action) const {
    return problem_.stages[action.stage.position()].of(action.kind);
  }

  // When the next action of the kind could start at this stage.
  [[nodiscard]] Candidate next_of(Stage stage, ActionKind kind) const {
    const Done& done = done_[stage];
    const std::int32_t index = kind == ActionKind::F   ? done.f
                               : kind == ActionKind::I ? done.i
                                                       : done.w;
    const Action action{stage, kind, Microbatch{index}};
    // Micro-batches of a stage stay in order (docs/theory.md 4.4), so counts say which is next.
    if (index == problem_.shape.microbatches) return {};
    std::int64_t inputs = 0;
    if (kind == ActionKind::W) {
      if (index >= done.i) return {};
    } else if (kind == ActionKind::F) {
      if (!may_begin(stage)) return {};
      if (problem_.shape.is_first(stage) && !rule_.begins_ns.empty())
        inputs = rule_.begins_ns[at(index)];
      if (!problem_.shape.is_first(stage)) {
        const Stage before{stage.value - 1};
        inputs = forward_(before, action.microbatch);
        if (inputs == kNoneYet) return {};
        inputs += problem_.forward_ns[before.position()];
      }
    } else {
      if (index >= done.f) return {};
      inputs = forward_[action];
      if (!problem_.shape.is_last(stage)) {
        const Stage behind{stage.value + 1};
        inputs = gradient_(behind, action.microbatch);
        if (inputs == kNoneYet) return {};
        inputs += problem_.backward_ns[behind.position()];
      }
    }
    return {action, std::max(inputs, free_[problem_.shape.rank_of(stage)])};
  }

  // Room for this micro-batch, and beyond it for one at each later stage of the rank: a rank that
  // filled up with its first stage's would never finish any.
  [[nodiscard]] bool may_begin(Stage stage) const {
    const Rank rank = problem_.shape.rank_of(stage);
    std::int64_t needed = kept_[rank];
    for (const Stage other : stages_[rank.position()])
      if (other.value >= stage.value) needed += problem_.kept[other.position()];
    if (needed > problem_.room[rank.position()]) return false;
    return rule_.ahead == 0 || done_[stage].f - done_[stage].w < rule_.ahead;
  }

  [[nodiscard]] bool preferred(const Candidate& a, const Candidate& b) const {
    if (a.action.kind != b.action.kind)
      return (a.action.kind == ActionKind::F) == rule_.forward_first;
    return (a.action.stage.value > b.action.stage.value) == rule_.deeper_first;
  }

  [[nodiscard]] Candidate choice_of(Rank rank) const {
    Candidate best, earliest, weight;
    for (const Stage stage : stages_[rank.position()]) {
      for (const ActionKind kind : {ActionKind::F, ActionKind::I}) {
        const Candidate one = next_of(stage, kind);
        if (one.start < earliest.start) earliest = one;
      }
      const Candidate w = next_of(stage, ActionKind::W);
      if (w.start < weight.start) weight = w;
    }
    // Of those that could start first, the rule's favourite.
    best = earliest;
    for (const Stage stage : stages_[rank.position()]) {
      for (const ActionKind kind : {ActionKind::F, ActionKind::I}) {
        const Candidate one = next_of(stage, kind);
        // Waiting for it costs nothing that the earliest would not take as well.
        if (one.start == earliest.start && one.start != kNoneYet && preferred(one, best))
          best = one;
      }
    }
    if (weight.start == kNoneYet) return best;
    switch (rule_.fill) {
      case GreedyRule::Fill::at_once:
        return weight;
      // Only where it ends before the rank could go on.
      case GreedyRule::Fill::gaps:
        return best.start == kNoneYet || weight.start + length(weight.action) <= best.start ? weight
                                                                                            : best;
      case GreedyRule::Fill::last:
        return best.start == kNoneYet ? weight : best;
    }
    return best;
  }

  void commit(const Candidate& next) {
    const Action& action = next.action;
    const Rank rank = problem_.shape.rank_of(action.stage);
    const std::int64_t end = next.start + length(action);
    words_[rank].push_back(action);
    free_[rank] = end;
    Done& done = done_[action.stage];
    const std::int64_t each = problem_.kept[action.stage.position()];
    if (action.kind == ActionKind::F) {
      ++done.f;
      forward_[action] = end;
      kept_[rank] += each;
    } else if (action.kind == ActionKind::I) {
      ++done.i;
      gradient_[action] = end;
    } else {
      ++done.w;
      kept_[rank] -= each;
    }
  }

  const SynthesisProblem& problem_;
  const GreedyRule& rule_;
  Words words_;
  Indexed<Rank, std::int64_t> free_, kept_;
  Indexed<Stage, Done> done_;
  Cells<std::int64_t> forward_, gradient_;
  std::vector<std::vector<Stage>> stages_;
  std::int64_t left_ = 0;
};

}  // namespace

std::optional<Words> greedy_words(const SynthesisProblem& problem, const GreedyRule& rule) {
  return List(problem, rule).run();
}

std::vector<GreedyRule> greedy_portfolio(const SynthesisProblem& problem) {
  std::vector<GreedyRule> rules;
  const std::int32_t k = problem.shape.ranks;
  for (const bool forward_first : {false, true}) {
    for (const bool deeper_first : {true, false}) {
      for (const auto fill :
           {GreedyRule::Fill::gaps, GreedyRule::Fill::at_once, GreedyRule::Fill::last}) {
        for (const std::int32_t ahead : {0, k, 2 * k - 1})
          rules.push_back({forward_first, deeper_first, fill, ahead});
      }
    }
  }
  return rules;
}

}  // namespace weir
