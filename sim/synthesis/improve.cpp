// Local search by swaps, and tiling of a steady part.
// SPDX-License-Identifier: Apache-2.0
#include "sim/synthesis/improve.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace weir {
namespace {

bool may_swap(const Action& a, const Action& b) {
  if (a.stage != b.stage) return true;
  // Micro-batches of a stage stay in order, and so do F, I and W of one.
  return a.kind != b.kind && a.microbatch != b.microbatch;
}

// By stage and kind (F, I, W), how many of its actions come before a place of a word.
using Counts = std::vector<std::int32_t>;

std::size_t slot_of(const Action& action) {
  const std::size_t kind = action.kind == ActionKind::F ? 0 : action.kind == ActionKind::I ? 1 : 2;
  return 3 * action.stage.position() + kind;
}

}  // namespace

void swap_neighbours(const SynthesisProblem& problem, Words& words, std::int64_t most_actions) {
  std::int64_t actions = 0;
  for (const Rank rank : words.ids()) actions += static_cast<std::int64_t>(words[rank].size());
  WordTimes now = time_words(problem, words).value();
  std::int64_t timed = actions;
  for (bool better = true; better && timed < most_actions;) {
    better = false;
    for (const Rank rank : words.ids()) {
      auto& word = words[rank];
      for (std::size_t p = 0; p + 1 < word.size() && timed < most_actions; ++p) {
        if (!may_swap(word[p], word[p + 1])) continue;
        // Only an action that starts when the one before it ends can wait for that one.
        const std::int64_t length = problem.stages[word[p].stage.position()].of(word[p].kind);
        if (now.start_ns[rank][p] + length < now.start_ns[rank][p + 1]) continue;
        std::swap(word[p], word[p + 1]);
        timed += actions;
        auto other = within_room(problem, words) ? time_words(problem, words) : std::nullopt;
        if (other && other->makespan_ns < now.makespan_ns) {
          now = std::move(*other);
          better = true;
        } else {
          std::swap(word[p], word[p + 1]);
        }
      }
    }
  }
}

std::optional<Words> tiled_words(const SynthesisProblem& problem, const Words& few,
                                 std::int32_t few_microbatches, std::int32_t from,
                                 std::int32_t period) {
  const std::int32_t more = problem.shape.microbatches - few_microbatches;
  if (more < 0 || more % period != 0) return std::nullopt;
  Words words(problem.shape.ranks);
  for (const Rank rank : few.ids()) {
    const auto& word = few[rank];
    // A period is cut where the I of the rank's first stage begins.
    const Stage marked = problem.stages_of(rank).front();
    const auto begins = [&](std::int32_t microbatch) {
      return std::ranges::find(word, Action{marked, ActionKind::I, Microbatch{microbatch}}) -
             word.begin();
    };
    const auto first = begins(from), last = begins(from + period);
    if (last == static_cast<std::ptrdiff_t>(word.size())) return std::nullopt;
    // Only where each stage does one period's worth of each kind can it be repeated without
    // drifting.
    Counts inside(3 * at(problem.shape.stages), 0);
    for (auto p = first; p < last; ++p) ++inside[slot_of(word[at(p)])];
    for (const Stage stage : problem.stages_of(rank)) {
      for (std::size_t kind = 0; kind < 3; ++kind)
        if (inside[3 * stage.position() + kind] != period) return std::nullopt;
    }
    // Micro-batches of a stage are in order: each action's is how many of its kind came before.
    Counts done(inside.size(), 0);
    const auto append = [&](const Action& action) {
      words[rank].push_back({action.stage, action.kind, Microbatch{done[slot_of(action)]++}});
    };
    for (auto p = 0; p < first; ++p) append(word[at(p)]);
    for (std::int32_t round = 0; round <= more / period; ++round)
      for (auto p = first; p < last; ++p) append(word[at(p)]);
    for (auto p = last; p < static_cast<std::ptrdiff_t>(word.size()); ++p) append(word[at(p)]);
  }
  if (!time_words(problem, words) || !within_room(problem, words)) return std::nullopt;
  return words;
}

}  // namespace weir
