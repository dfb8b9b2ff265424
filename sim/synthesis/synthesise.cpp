// Runs one method after the other, each from the best so far (docs/theory.md 4.4).
// SPDX-License-Identifier: Apache-2.0
#include "sim/synthesis/synthesise.hpp"

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "plan/schedule/generators/generators.hpp"
#include "sim/synthesis/bound.hpp"
#include "sim/synthesis/exact.hpp"
#include "sim/synthesis/greedy.hpp"
#include "sim/synthesis/improve.hpp"
#include "sim/synthesis/pace.hpp"

namespace weir {
namespace {

struct Best {
  std::optional<Words> words;
  std::int64_t makespan_ns = std::numeric_limits<std::int64_t>::max();
  std::string name = "auto";
};

class Methods {
 public:
  Methods(const SynthesisProblem& problem, const SynthesisEffort& effort)
      : problem_(problem), effort_(effort), bound_(synthesis_bound_ns(problem)) {}

  [[nodiscard]] Best run() {
    catalogue();
    for (const GreedyRule& rule : greedy_portfolio(problem_))
      consider(greedy_words(problem_, rule), "auto");
    if (!best_.words) return {};
    swaps();
    const ScheduleShape& shape = problem_.shape;
    constexpr std::int32_t kFew = 32;
    if (shape.stages * shape.microbatches <= kFew) exact();
    if (!done()) paces();
    // Where the exact search gave up, a steady part may still be the shorter one.
    if (!done()) tiles();
    return std::move(best_);
  }
  [[nodiscard]] std::int64_t bound() const { return bound_; }

 private:
  [[nodiscard]] bool done() const { return best_.makespan_ns <= bound_; }

  void consider(std::optional<Words> words, const std::string& name) {
    if (!words || !within_room(problem_, *words)) return;
    const auto times = time_words(problem_, *words);
    if (!times || times->makespan_ns >= best_.makespan_ns) return;
    best_ = {std::move(words), times->makespan_ns, name};
  }

  void catalogue() {
    const ScheduleShape& shape = problem_.shape;
    for (const Generator& generator : generators()) {
      const auto made =
          generator.make({shape.ranks, shape.stages / shape.ranks, shape.microbatches});
      const auto* schedule = std::get_if<Schedule>(&made);
      if (schedule != nullptr && schedule->shape == shape)
        consider(schedule->order, std::string(generator.name));
    }
  }

  void swaps() {
    if (done()) return;
    Words words = *best_.words;
    swap_neighbours(problem_, words, effort_.swapped);
    consider(std::move(words), "auto");
  }

  void exact() {
    if (done()) return;
    ExactWords found = exact_words(problem_, best_.makespan_ns, effort_.nodes);
    if (found.words) consider(std::move(found.words), "auto");
    // All was searched, and nothing is shorter.
    if (found.finished) bound_ = best_.makespan_ns;
  }

  void paces() {
    for (const std::vector<std::int64_t>& begins : paces_of(problem_)) {
      for (const auto fill : {GreedyRule::Fill::gaps, GreedyRule::Fill::at_once}) {
        consider(greedy_words(problem_, {.fill = fill, .begins_ns = begins}), "auto");
        if (done()) return;
      }
    }
  }

  // A steady state needs the fill and the drain to be over: some multiples of the stages.
  void tiles() {
    const ScheduleShape& shape = problem_.shape;
    for (const std::int32_t rounds : {3, 4}) {
      for (std::int32_t extra = 0; extra < 2 && !done(); ++extra) {
        SynthesisProblem few = problem_;
        few.shape.microbatches = rounds * shape.ranks + extra + shape.microbatches % 2;
        if (few.shape.microbatches >= shape.microbatches) continue;
        for (const GreedyRule& rule : greedy_portfolio(few)) {
          if (const auto words = greedy_words(few, rule)) stretch(*words, few.shape.microbatches);
        }
      }
    }
    // Parts that were joined may stand badly at the seams.
    swaps();
  }

  void stretch(const Words& words, std::int32_t few) {
    for (std::int32_t period = 1; period <= 3; ++period) {
      for (std::int32_t from = 0; from + period < few; ++from)
        consider(tiled_words(problem_, words, few, from, period), "auto");
    }
  }

  const SynthesisProblem& problem_;
  SynthesisEffort effort_;
  std::int64_t bound_;
  Best best_;
};

}  // namespace

std::optional<Synthesis> synthesise(const SynthesisProblem& problem,
                                    const SynthesisEffort& effort) {
  Methods methods(problem, effort);
  Best best = methods.run();
  if (!best.words) return std::nullopt;
  Synthesis synthesis;
  synthesis.schedule.name = best.name;
  synthesis.schedule.shape = problem.shape;
  synthesis.schedule.order = std::move(*best.words);
  synthesis.schedule.overlapped = Indexed<Rank, std::vector<std::int32_t>>(problem.shape.ranks);
  synthesis.makespan_ns = best.makespan_ns;
  synthesis.lower_bound_ns = std::min(methods.bound(), best.makespan_ns);
  return synthesis;
}

}  // namespace weir
