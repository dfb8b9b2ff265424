// Where two micro-batches pass each other is a choice; a table over all choices finds the least.
// SPDX-License-Identifier: Apache-2.0
#include "sim/synthesis/crossing_bound.hpp"

#include <algorithm>
#include <limits>
#include <vector>

namespace weir {
namespace {

// The chain from one stage on, and the ways along it without a wait.
class Chain {
 public:
  Chain(const SynthesisProblem& problem, std::size_t first)
      : problem_(problem), first_(first), last_(problem.stages.size()) {
    down_.assign(last_ + 1, 0);
    up_ = down_;
    for (std::size_t s = first; s < last_; ++s) {
      down_[s + 1] = down_[s] + problem.stages[s].f + problem.forward_ns[s];
      up_[s + 1] = up_[s] + problem.stages[s].i + problem.backward_ns[s];
    }
  }

  [[nodiscard]] std::size_t first() const { return first_; }
  [[nodiscard]] std::size_t last() const { return last_; }
  // From the start of F on `from` to its end on the stage before `to`.
  [[nodiscard]] std::int64_t down(std::size_t from, std::size_t to) const {
    return from == to ? 0 : down_[to] - down_[from] - problem_.forward_ns[to - 1];
  }
  // From the start of I on the stage before `from` to its end on `to`.
  [[nodiscard]] std::int64_t up(std::size_t from, std::size_t to) const {
    return from == to ? 0 : up_[from] - up_[to] - problem_.backward_ns[to];
  }
  // F from `from` to the last stage, and I from there to `to`.
  [[nodiscard]] std::int64_t turn(std::size_t from, std::size_t to) const {
    return down(from, last_) + up(last_, to);
  }
  // I from the stage before `from` to the first, its W, and F of the next to the stage before `to`.
  [[nodiscard]] std::int64_t change(std::size_t from, std::size_t to) const {
    return up(from, first_) + problem_.stages[first_].w + down(first_, to);
  }

 private:
  const SynthesisProblem& problem_;
  std::size_t first_, last_;
  std::vector<std::int64_t> down_, up_;
};

// From the first F on the chain's first stage to the end of the last I there, of `count` >= 2
// micro-batches of which the one after the next begins when this one has left.
//
// One on its way back and the next on its way down pass each other at a border p: before it the
// next one's F came first, from p on this one's I. From then on neither has to wait for the other,
// and neither could have gone on sooner than both had come there; so the time of the last meeting,
// by its border, is all that is to be known of what was before.
std::int64_t least_time(const Chain& chain, std::int64_t count) {
  const std::size_t first = chain.first(), last = chain.last();
  const std::int64_t next_begins = chain.down(first, first + 1);
  // The first meeting: one comes back from the turn, the next has gone down as far as p.
  std::vector<std::int64_t> met(last + 1, 0), then(last + 1, 0);
  for (std::size_t p = first; p <= last; ++p) {
    const std::int64_t next = p == first ? 0 : next_begins + chain.down(first, p);
    met[p] = std::max(chain.turn(first, p), next);
  }
  for (std::int64_t meeting = 2; meeting < count; ++meeting) {
    for (std::size_t to = first; to <= last; ++to) {
      then[to] = std::numeric_limits<std::int64_t>::max();
      for (std::size_t from = first; from <= last; ++from) {
        const std::int64_t both = std::max(chain.turn(from, to), chain.change(from, to));
        then[to] = std::min(then[to], met[from] + both);
      }
    }
    met.swap(then);
  }
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::size_t p = first; p <= last; ++p)
    least = std::min(least, met[p] + chain.turn(p, first));
  return least;
}

}  // namespace

std::int64_t crossing_bound_ns(const SynthesisProblem& problem,
                               std::span<const std::int64_t> head_ns,
                               std::span<const std::int64_t> tail_ns) {
  const ScheduleShape& shape = problem.shape;
  // Micro-batches meet so where each rank has one stage; elsewhere this bound says nothing.
  if (shape.stages != shape.ranks) return 0;
  constexpr std::int64_t kMostSteps = 20'000'000;  // of one stage's table
  const std::int64_t m = shape.microbatches;
  std::int64_t bound = 0;
  for (std::size_t s = 0; s < problem.stages.size(); ++s) {
    const std::int64_t kept = std::max<std::int64_t>(1, problem.kept[s]);
    const Rank rank = shape.rank_of(Stage{static_cast<std::int32_t>(s)});
    const std::int64_t most = problem.room[rank.position()] / kept;
    // With room for one nobody meets, and with room for all nobody waits.
    if (most < 2 || most >= m) continue;
    // Of every `most` micro-batches two are looked at.
    const std::int64_t groups = m / most, rest = m % most;
    const std::int64_t count = 2 * groups + std::min<std::int64_t>(2, rest);
    // Behind the last that is looked at, the others' I follow on this stage.
    const std::int64_t behind = rest == 0 ? most - 2 : std::max<std::int64_t>(0, rest - 2);
    const auto length = static_cast<std::int64_t>(problem.stages.size() - s) + 1;
    if (count * length * length > kMostSteps) continue;
    const std::int64_t way = least_time(Chain(problem, s), count);
    bound = std::max(bound, head_ns[s] + way + behind * problem.stages[s].i + tail_ns[s]);
  }
  return bound;
}

}  // namespace weir
