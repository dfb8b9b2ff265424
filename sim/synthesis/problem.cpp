// Times and room of given orders (docs/theory.md 4.4).
// SPDX-License-Identifier: Apache-2.0
#include "sim/synthesis/problem.hpp"

#include <algorithm>

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
  // Rank by rank as far as inputs are known, until nothing moves: what waits for itself never does.
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

}  // namespace weir
