// Asks for families, then along the front from the fastest plan to the smallest.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/further.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "sim/parallel.hpp"
#include "sim/search/front.hpp"

namespace weir {
namespace {

// A row is told with its gap, of 5 % at most where the effort reaches so far.
constexpr double kCloseRow = 0.045;
constexpr int kEffortRow = 64, kExactRow = 24;
// The front is within 3 %, half of which its steps may be apart.
constexpr double kCloseFront = 0.012, kApart = 1.015;
constexpr int kEffortFront = 32;
constexpr int kMostLimits = 96;  // memory limits that the front is asked for

class Further {
 public:
  Further(SearchGround& ground, SweepResult& result) : ground_(ground), result_(result) {
    questions_ = ground.request.families.size() + (ground.request.front ? kMostLimits : 0);
  }

  void families() {
    std::vector<Answer> answers;
    for (const Family& family : ground_.request.families) {
      // It is told beside the best only, which answers it where it has the value itself.
      if (family.beside_best && best_is_of(family)) {
        answers.push_back({.any = true});
        continue;
      }
      answers.push_back(pursue(
          {.wants = family.has, .effort = kEffortRow, .exact = kExactRow, .close = kCloseRow}));
    }
    answers_ = std::move(answers);
  }

  // From the fastest plan's memory down, a tenth less each time; and between two limits whose best
  // steps are apart, halfway, as long as there is room.
  void front() {
    struct Point {
      Seconds step;
      Bytes peak, limit;  // found within this limit
    };
    std::vector<Point> points;
    const auto ask = [&](Bytes limit) -> std::optional<Point> {
      const Answer answer = pursue({.memory = limit, .effort = kEffortFront, .close = kCloseFront});
      if (answer.best.empty()) return std::nullopt;
      const Cut& cut = answer.best.front().cut;
      return Point{cut.step, cut.peak, limit};
    };
    const auto part = [](Bytes of, double share) {
      return Bytes(static_cast<std::int64_t>(share * static_cast<double>(of.count())));
    };
    std::optional<Point> next = ask(Bytes(std::numeric_limits<std::int64_t>::max()));
    int asked = 1;
    constexpr double kLess = 0.9;
    // Half of the questions; the rest is for gaps between points.
    while (next && asked < kMostLimits / 2) {
      points.push_back(*next);
      next = ask(part(next->peak, kLess));
      ++asked;
    }
    constexpr double kRoom = 0.985;
    for (std::size_t i = 0; i + 1 < points.size() && asked < kMostLimits;) {
      const Point &high = points[i], &low = points[i + 1];
      const bool apart = low.step > kApart * high.step;
      if (!apart || low.limit >= part(high.peak, kRoom)) {
        ++i;
        continue;
      }
      const Bytes middle{(low.limit.count() + high.peak.count()) / 2};
      ++asked;
      const auto between = ask(middle);
      if (!between) {
        ++i;
        continue;
      }
      // As good as the lower one: nothing between is better for less than `middle`.
      if (between->peak <= low.limit || between->step >= low.step) {
        points[i + 1].limit = middle;
      } else {
        points.insert(points.begin() + static_cast<std::ptrdiff_t>(i) + 1, *between);
      }
    }
  }

  void answer() {
    const auto& families = ground_.request.families;
    for (std::size_t i = 0; i < families.size(); ++i)
      result_.families.push_back(best_of(families[i], std::move(answers_[i])));
    if (ground_.request.front) result_.front = front_of_all();
  }

 private:
  [[nodiscard]] Answer pursue(Goal goal) {
    // Of what is left of the time each question has its part.
    if (const auto& budget = ground_.request.budget) {
      const double left = std::max(0.0, budget->count() - ground_.seconds());
      goal.until = ground_.seconds() + left / static_cast<double>(std::max<std::size_t>(
                                                  1, questions_ - std::min(asked_, questions_)));
    }
    ++asked_;
    Walk walk(ground_, goal);
    walk.run();
    walk.count(result_);
    return walk.answer();
  }

  [[nodiscard]] bool best_is_of(const Family& family) const {
    std::optional<Found> best;
    for (const auto& [node, outcome] : ground_.refiner.outcomes()) {
      auto cut = best_cut(outcome, {});
      if (cut && (!best || goes_before(*cut, best->cut))) best = Found{node, std::move(*cut)};
    }
    const Nodes& nodes = ground_.nodes;
    return best && family.has(nodes.plan(nodes.all[best->node], ground_.request));
  }

  // Of everything that was refined, for whatever question.
  [[nodiscard]] FamilyBest best_of(const Family& family, Answer answer) {
    FamilyBest row{.any = answer.any, .left_out = std::move(answer.left_out)};
    std::optional<Found> best;
    for (const auto& [node, outcome] : ground_.refiner.outcomes()) {
      auto cut = best_cut(outcome, {});
      if (!cut || (best && !goes_before(*cut, best->cut))) continue;
      const Nodes& nodes = ground_.nodes;
      if (!family.has(nodes.plan(nodes.all[node], ground_.request))) continue;
      best = Found{node, std::move(*cut)};
    }
    if (!best) {
      const bool open = answer.open_ns < std::numeric_limits<double>::max();
      row.not_come_to = !ground_.nodes.whole || (open && row.left_out.empty());
      return row;
    }
    answer.best = {*best};
    // Of candidates that were not listed nothing is known.
    row.gap = ground_.nodes.whole ? answer.gap() : std::numeric_limits<double>::infinity();
    row.best = ground_.refiner.ranked(best->node, best->cut);
    return row;
  }

  [[nodiscard]] std::vector<Ranked> front_of_all() {
    std::vector<Found> all;
    for (const auto& [node, outcome] : ground_.refiner.outcomes()) {
      for (const Cut& cut : outcome.cuts) all.push_back({node, cut});
    }
    std::ranges::stable_sort(all, [](const Found& a, const Found& b) {
      return std::pair(a.cut.step, a.cut.peak) < std::pair(b.cut.step, b.cut.peak);
    });
    std::vector<Found> best;
    for (Found& found : all) {
      if (best.empty() || found.cut.peak < best.back().cut.peak) best.push_back(std::move(found));
    }
    // Only the plans of the front are forecast with all that is told.
    std::vector<Ranked> ranked(best.size());
    in_parallel(best.size(), [&](std::size_t i) {
      ranked[i] = ground_.refiner.ranked(best[i].node, best[i].cut);
    });
    return pareto_front(std::move(ranked));
  }

  SearchGround& ground_;
  SweepResult& result_;
  std::vector<Answer> answers_;
  std::size_t questions_ = 0, asked_ = 0;
};

}  // namespace

void ask_further(SearchGround& ground, Goal first, Answer& answer, SweepResult& result) {
  Further further(ground, result);
  further.families();
  if (ground.request.front) further.front();
  if (ground.request.budget && answer.gap() > 0) {
    first.whole = false;
    first.until = ground.request.budget->count();
    Walk walk(ground, first);
    walk.run();
    walk.count(result);
    // Neither knows of a plan below its own bound.
    answer.open_ns = std::max(answer.open_ns, walk.answer().open_ns);
  }
  // Behind it: a row or the front may be answered by what it found.
  further.answer();
}

}  // namespace weir
