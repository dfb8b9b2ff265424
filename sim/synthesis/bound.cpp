// The longest of all chains that no order avoids (docs/theory.md 4.4).
// SPDX-License-Identifier: Apache-2.0
#include "sim/synthesis/bound.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "sim/synthesis/crossing_bound.hpp"

namespace weir {

std::int64_t synthesis_bound_ns(const SynthesisProblem& problem) {
  const ScheduleShape& shape = problem.shape;
  const std::int64_t m = shape.microbatches;
  const auto count = at(shape.stages);
  // Before a stage's first F, and after its last I until the end of the step.
  std::vector<std::int64_t> head(count, 0), tail(count, problem.stages[0].w);
  for (std::size_t s = 1; s < count; ++s) {
    head[s] = head[s - 1] + problem.stages[s - 1].f + problem.forward_ns[s - 1];
    tail[s] = tail[s - 1] + problem.stages[s - 1].i + problem.backward_ns[s];
  }
  std::int64_t bound = crossing_bound_ns(problem, head, tail);
  std::int64_t back = 0;  // of the last stage: its I follows its F
  for (std::size_t s = count; s-- > 0;) {
    const SynthesisTimes& t = problem.stages[s];
    const bool last = s + 1 == count;
    // From the start of F to the end of I of one micro-batch.
    back = t.f + (last ? 0 : problem.forward_ns[s] + back + problem.backward_ns[s + 1]) + t.i;
    bound = std::max(bound, head[s] + back + tail[s]);
    // So many micro-batches fit at once; the next begin when the first have given their room back
    // (docs/theory.md 4.4).
    const std::int64_t most = std::max<std::int64_t>(
        1, problem.room[shape.rank_of(Stage{static_cast<int>(s)}).position()] /
               std::max<std::int64_t>(1, problem.kept[s]));
    const std::int64_t rounds = (m - 1) / most;
    bound = std::max(bound, head[s] + rounds * (back + t.w) + back + tail[s]);
  }
  for (std::int32_t r = 0; r < shape.ranks; ++r) {
    // Heads and tails of a rank as in docs/theory.md 3.2.
    std::int64_t all = 0, chain = 0;
    std::int64_t first = std::numeric_limits<std::int64_t>::max(), after = first;
    for (const Stage stage : problem.stages_of(Rank{r})) {
      const SynthesisTimes& t = problem.stages[stage.position()];
      all += m * (t.f + t.i + t.w);
      chain += m * (t.f + t.i);
      first = std::min(first, head[stage.position()]);
      after = std::min(after, tail[stage.position()]);
    }
    bound = std::max(bound, first + std::max(all, chain + after));
  }
  return bound;
}

}  // namespace weir
