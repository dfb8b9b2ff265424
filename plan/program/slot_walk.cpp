// Visits ranks that a message may have freed, each for as long as its next action has what it
// takes.
// SPDX-License-Identifier: Apache-2.0
#include "plan/program/slot_walk.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace weir {
namespace {
constexpr std::int32_t kNotMade = std::numeric_limits<std::int32_t>::max();
}

SlotWalk::SlotWalk(const Schedule& schedule, const std::vector<SkipRoute>& skips)
    : schedule_(schedule),
      into_f_(schedule.shape.total_stages(), kNone),
      into_b_(schedule.shape.total_stages(), kNone) {
  const ScheduleShape& shape = schedule.shape;
  std::map<std::pair<Rank, Rank>, std::int32_t> between;
  const auto edge = [&](Rank from, Rank to) {
    const auto [found, fresh] =
        between.try_emplace({from, to}, static_cast<std::int32_t>(edges_.size()));
    if (fresh) edges_.push_back({to, from == to});
    return found->second;
  };
  for (const Stage stage : shape.all_stages()) {
    if (!shape.is_first(stage))
      into_f_[stage] = edge(shape.rank_of(stage - 1), shape.rank_of(stage));
    if (!shape.is_last(stage))
      into_b_[stage] = edge(shape.rank_of(stage + 1), shape.rank_of(stage));
  }
  for (const auto& [from, to] : skips) {
    hops_.push_back({from, to, true, edge(shape.rank_of(from), shape.rank_of(to))});
    hops_.push_back({to, from, false, edge(shape.rank_of(to), shape.rank_of(from))});
  }
}

bool SlotWalk::ends(std::int32_t slots) {
  message_f_ = message_b_ = Cells<std::int32_t>(schedule_.shape, kNotMade);
  for (Edge& edge : edges_) edge = {edge.to, edge.local};
  for (Hop& hop : hops_) hop.message.assign(at(schedule_.shape.units()), kNotMade);
  shards_.emplace(schedule_.shape);
  next_.assign(schedule_.shape.ranks, 0);
  listed_.assign(schedule_.shape.ranks, 1);
  for (const Rank rank : next_.ids()) to_visit_.push_back(rank);
  while (!to_visit_.empty()) {
    const Rank rank = to_visit_.back();
    to_visit_.pop_back();
    listed_[rank] = 0;
    advance(rank, slots);
  }
  return std::ranges::all_of(
      next_.ids(), [this](Rank rank) { return next_[rank] == schedule_.order[rank].size(); });
}

void SlotWalk::advance(Rank rank, std::int32_t slots) {
  const ScheduleShape& shape = schedule_.shape;
  const std::vector<Action>& order = schedule_.order[rank];
  for (std::size_t& next = next_[rank]; next < order.size(); ++next) {
    const Action& action = order[next];
    // W takes no message, so it frees no slot.
    if (action.kind == ActionKind::W) continue;
    if (!shards_->ready(action)) return;
    const bool forward = action.kind == ActionKind::F;
    if (const std::int32_t in = (forward ? into_f_ : into_b_)[action.stage]; in != kNone) {
      Edge& edge = edges_[at(in)];
      const std::int32_t message = (forward ? message_f_ : message_b_)[action];
      if (edge.sent <= message || !skips_have_come(action)) return;
      // The slot is free; what waits for it comes to this rank, which is looking already.
      edge.taken[at(message)] = true;
      send(edge, slots);
      take_skips(action, slots);
    }
    if (shards_->note(action)) visit_all_but(rank);
    if (forward ? shape.is_last(action.stage) : shape.is_first(action.stage)) continue;
    const Stage user = forward ? action.stage + 1 : action.stage - 1;
    Edge& edge = edges_[at((forward ? into_f_ : into_b_)[user])];
    (forward ? message_f_ : message_b_)(user, action.microbatch) = make(edge, slots);
    make_skips(action, slots);
  }
}

void SlotWalk::visit_all_but(Rank rank) {
  for (const Rank other : next_.ids()) {
    if (other == rank || listed_[other] != 0) continue;
    listed_[other] = 1;
    to_visit_.push_back(other);
  }
}

std::int32_t SlotWalk::make(Edge& edge, std::int32_t slots) {
  const auto number = static_cast<std::int32_t>(edge.taken.size());
  edge.taken.push_back(false);
  // Only a rank that a message may have freed is visited, and listed once.
  if (!send(edge, slots) || listed_[edge.to] != 0) return number;
  listed_[edge.to] = 1;
  to_visit_.push_back(edge.to);
  return number;
}

bool SlotWalk::skips_have_come(const Action& action) const {
  return std::ranges::all_of(hops_, [&](const Hop& hop) {
    const bool awaited = hop.to == action.stage && hop.forward == (action.kind == ActionKind::F);
    return !awaited || edges_[at(hop.edge)].sent > hop.message[action.microbatch.position()];
  });
}

void SlotWalk::take_skips(const Action& action, std::int32_t slots) {
  for (const Hop& hop : hops_) {
    if (hop.to != action.stage || hop.forward != (action.kind == ActionKind::F)) continue;
    Edge& edge = edges_[at(hop.edge)];
    edge.taken[at(hop.message[action.microbatch.position()])] = true;
    send(edge, slots);
  }
}

void SlotWalk::make_skips(const Action& action, std::int32_t slots) {
  for (Hop& hop : hops_) {
    if (hop.from == action.stage && hop.forward == (action.kind == ActionKind::F))
      hop.message[action.microbatch.position()] = make(edges_[at(hop.edge)], slots);
  }
}

bool SlotWalk::send(Edge& edge, std::int32_t slots) {
  const std::int32_t before = edge.sent;
  const auto made = static_cast<std::int32_t>(edge.taken.size());
  const auto has_slot = [&] {
    return edge.local || slots == 0 || edge.sent < slots || edge.taken[at(edge.sent - slots)];
  };
  while (edge.sent < made && has_slot()) ++edge.sent;
  return edge.sent != before;
}

}  // namespace weir
