// What a schedule is made for: stages that may differ, what messages between them take, and how
// much each rank may keep.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/schedule/schedule.hpp"

namespace weir {

struct SynthesisTimes {
  std::int64_t f = 0, i = 0, w = 0;  // ns; B is I and W at once
  [[nodiscard]] std::int64_t of(ActionKind kind) const;
};

// By stage of the shape, which has one replica and no slices.
struct SynthesisProblem {
  ScheduleShape shape;
  std::vector<SynthesisTimes> stages;
  std::vector<std::int64_t> forward_ns;   // from the end of F to the next stage's
  std::vector<std::int64_t> backward_ns;  // from the end of I, or B, to the stage before's
  std::vector<std::int64_t> kept;         // by a micro-batch, from the start of F to the end of W
  std::vector<std::int64_t> room;         // by rank: the most that may be kept at once

  [[nodiscard]] std::vector<Stage> stages_of(Rank rank) const;  // ascending
};

// Per rank, in order.
using Words = Indexed<Rank, std::vector<Action>>;

struct WordTimes {
  std::int64_t makespan_ns = 0;
  Indexed<Rank, std::vector<std::int64_t>> start_ns;
};
// Every action as early as its rank's order and its inputs let it start, the ranks' last end;
// nullopt: ranks wait for each other. Receive slots are unlimited and links carry any number of
// messages at once.
[[nodiscard]] std::optional<WordTimes> time_words(const SynthesisProblem& problem,
                                                  const Words& words);
// The order alone decides what is kept.
[[nodiscard]] bool within_room(const SynthesisProblem& problem, const Words& words);

}  // namespace weir
