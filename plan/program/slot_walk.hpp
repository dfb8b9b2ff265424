// Carries a schedule out with so many receive slots an edge, by counting alone: the proof of
// docs/design.md 6 without a program. What ends so cannot deadlock when it is lowered.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/program/program.hpp"
#include "plan/schedule/schedule.hpp"
#include "plan/schedule/shard_passes.hpp"

namespace weir {

class SlotWalk {
 public:
  // The schedule outlives the walk. `skips` as LoweringOptions'.
  explicit SlotWalk(const Schedule& schedule, const std::vector<SkipRoute>& skips = {});

  // Whether every action comes to its end; 0 slots: as many as there are messages.
  [[nodiscard]] bool ends(std::int32_t slots);

 private:
  static constexpr std::int32_t kNone = -1;

  struct Edge {
    Rank to;
    bool local = false;  // what a rank hands to itself takes no slot
    std::int32_t sent = 0;
    std::vector<bool> taken{};  // by message, in the order in which they are made
  };

  // What a skip is on its way there, or its gradient on its way back.
  struct Hop {
    Stage from, to;
    bool forward = true;
    std::int32_t edge = kNone;
    std::vector<std::int32_t> message{};  // by micro-batch: its number on the edge, once it is made
  };

  void advance(Rank rank, std::int32_t slots);
  void visit_all_but(Rank rank);
  [[nodiscard]] bool skips_have_come(const Action& action) const;
  void take_skips(const Action& action, std::int32_t slots);
  void make_skips(const Action& action, std::int32_t slots);
  // A message is made; the rank that may wait for it is visited.
  std::int32_t make(Edge& edge, std::int32_t slots);
  // Whether the edge's messages moved on.
  bool send(Edge& edge, std::int32_t slots);

  const Schedule& schedule_;
  std::vector<Edge> edges_;
  Indexed<Stage, std::int32_t> into_f_, into_b_;  // the edge that brings a stage's input, gradient
  Cells<std::int32_t> message_f_, message_b_;     // its number on that edge, once it is made
  std::vector<Hop> hops_;                         // of skips, each there and back
  std::optional<ShardPasses> shards_;
  Indexed<Rank, std::size_t> next_;
  std::vector<Rank> to_visit_;
  Indexed<Rank, std::uint8_t> listed_;  // in to_visit_
};

}  // namespace weir
