// The neighbours of a program's operations that its parts do not spell out.
// SPDX-License-Identifier: Apache-2.0
#include "plan/program/program.hpp"

#include <utility>

#include "plan/words/names.hpp"

namespace weir {
namespace {
constexpr Names<LaneKind, 4> kLaneNames{{{LaneKind::compute, "compute"},
                                         {LaneKind::send, "send"},
                                         {LaneKind::receive, "receive"},
                                         {LaneKind::reduce, "reduce"}}};
}

std::string_view to_string(LaneKind kind) { return name_of(kLaneNames, kind); }

std::optional<LaneKind> parse_lane_kind(std::string_view text) { return named(kLaneNames, text); }

Program::Program(Parts parts)
    : parts_(std::move(parts)),
      compute_lanes_(shape().ranks),
      first_successor_(size() + 1),
      successors_(parts_.dependencies.size()) {
  for (const LaneId id : lanes().ids()) {
    if (lane(id).kind == LaneKind::compute) compute_lanes_[lane(id).rank] = id;
  }
  // A counting sort of the dependencies by what is waited for: counts, then where each one's list
  // ends, then filled from behind, so that the lists begin where they should and ascend.
  for (const OperationId id : ids()) {
    for (const Dependency& d : predecessors(id)) ++first_successor_[d.before.position()];
  }
  for (std::size_t i = 0; i < size(); ++i) first_successor_[i + 1] += first_successor_[i];
  for (OperationId id{size()}; id > OperationId{0};) {
    id = id - 1;
    for (const Dependency& d : predecessors(id))
      successors_[--first_successor_[d.before.position()]] = id;
  }
}

Rank Program::peer_rank(OperationId id) const {
  switch (lane_of(id).kind) {
    case LaneKind::send:
      return edge_of(id).to;
    case LaneKind::receive:
      return edge_of(id).from;
    default:
      return rank_of(id);
  }
}

OperationId Program::peer(OperationId id) const {
  const Lane& here = lane_of(id);
  const Edge& edge = edge_of(id);
  const bool sends = here.kind == LaneKind::send;
  // Both lanes of an edge have its messages in one order.
  return lane(sends ? edge.receive_lane : edge.send_lane).first + (id - here.first);
}

OperationId Program::send_after(OperationId compute) const {
  for (const OperationId id : successors(compute)) {
    if (lane_of(id).kind == LaneKind::send && producer(id) == compute && !is_skip(op(id).action))
      return id;
  }
  return kNoOperation;
}

OperationId Program::consumer(OperationId receive) const {
  for (const OperationId id : successors(receive)) {
    // R, fused into its backward, waits for the gradient but does not take it.
    if (lane_of(id).kind == LaneKind::compute && op(id).action.kind != ActionKind::R) return id;
  }
  return kNoOperation;
}

OperationId Program::receive_before(OperationId compute) const {
  for (const Dependency& d : predecessors(compute)) {
    if (d.kind == DependencyKind::data && lane_of(d.before).kind == LaneKind::receive &&
        !is_skip(op(d.before).action))
      return d.before;
  }
  return kNoOperation;
}

}  // namespace weir
