// Times and room of given orders, and the bound on all of them (docs/theory.md 4.3).
// SPDX-License-Identifier: Apache-2.0
#include "sim/synthesis/problem.hpp"

#include <algorithm>
#include <limits>

namespace weir {
namespace {

constexpr std::int64_t kNotYet = -1;

}  // namespace

std::int64_t SynthesisTimes::of(ActionKind kind) const {
  switch (kind) {
    case ActionKind::F:
      return f;
    case ActionKind::I:
      return i;
    case ActionKind::W:
      return w;
    default:
      return i + w;
  }
}

std::vector<Stage> SynthesisProblem::stages_of(Rank rank) const {
  std::vector<Stage> all;
  for (const Stage stage : shape.all_stages())
    if (shape.rank_of(stage) == rank) all.push_back(stage);
  return all;
}

std::optional<WordTimes> time_words(const SynthesisProblem& problem, const Words& words) {
  const ScheduleShape& shape = problem.shape;
  Cells<std::int64_t> forward(shape, kNotYet), gradient(shape, kNotYet);  // ends
  WordTimes times;
  times.start_ns = Indexed<Rank, std::vector<std::int64_t>>(shape.ranks);
  Indexed<Rank, std::int64_t> free(shape.ranks, 0);
  // When the inputs of an action are there; kNotYet: not known.
  const auto ready = [&](const Action& action) -> std::int64_t {
    const Stage stage = action.stage;
    if (action.kind == ActionKind::F) {
      if (shape.is_first(stage)) return 0;
      const Stage before{stage.value - 1};
      const std::int64_t end = forward(before, action.microbatch);
      return end == kNotYet ? kNotYet : end + problem.forward_ns[before.position()];
    }
    if (action.kind == ActionKind::W) return gradient[action];
    if (shape.is_last(stage)) return forward[action];
    const Stage behind{stage.value + 1};
    const std::int64_t end = gradient(behind, action.microbatch);
    if (end == kNotYet || forward[action] == kNotYet) return kNotYet;
    return end + problem.backward_ns[behind.position()];
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (const Rank rank : words.ids()) {
      auto& starts = times.start_ns[rank];
      while (starts.size() < words[rank].size()) {
        const Action& action = words[rank][starts.size()];
        const std::int64_t inputs = ready(action);
        if (inputs == kNotYet) break;
        const std::int64_t start = std::max(free[rank], inputs);
        starts.push_back(start);
        free[rank] = start + problem.stages[action.stage.position()].of(action.kind);
        if (action.kind == ActionKind::F) forward[action] = free[rank];
        if (is_backward(action.kind)) gradient[action] = free[rank];
        moved = true;
      }
    }
  }
  for (const Rank rank : words.ids()) {
    if (times.start_ns[rank].size() < words[rank].size()) return std::nullopt;
    times.makespan_ns = std::max(times.makespan_ns, free[rank]);
  }
  return times;
}

bool within_room(const SynthesisProblem& problem, const Words& words) {
  for (const Rank rank : words.ids()) {
    std::int64_t kept = 0;
    for (const Action& action : words[rank]) {
      const std::int64_t each = problem.kept[action.stage.position()];
      if (action.kind == ActionKind::F) kept += each;
      if (kept > problem.room[rank.position()]) return false;
      if (action.kind == ActionKind::B || action.kind == ActionKind::W) kept -= each;
    }
  }
  return true;
}

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
  std::int64_t bound = 0, back = 0;  // of the last stage: its I follows its F
  for (std::size_t s = count; s-- > 0;) {
    const SynthesisTimes& t = problem.stages[s];
    const bool last = s + 1 == count;
    // From the start of F to the end of I of one micro-batch.
    back = t.f + (last ? 0 : problem.forward_ns[s] + back + problem.backward_ns[s + 1]) + t.i;
    bound = std::max(bound, head[s] + back + tail[s]);
    const std::int64_t most = std::max<std::int64_t>(
        1, problem.room[shape.rank_of(Stage{static_cast<int>(s)}).position()] /
               std::max<std::int64_t>(1, problem.kept[s]));
    const std::int64_t rounds = (m - 1) / most;
    bound = std::max(bound, head[s] + rounds * (back + t.w) + back + tail[s]);
  }
  for (std::int32_t r = 0; r < shape.ranks; ++r) {
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
