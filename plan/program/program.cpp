// The neighbours of a program's operations that its parts do not spell out.
// SPDX-License-Identifier: Apache-2.0
#include "plan/program/program.hpp"

#include <utility>

#include "plan/program/rounds.hpp"
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

Program::Made::Made(Parts its)
    : parts(std::move(its)),
      compute_lanes(parts.shape.ranks),
      first_successor(parts.operations.size() + 1),
      successors(parts.dependencies.size()) {
  for (const LaneId id : parts.lanes.ids()) {
    if (parts.lanes[id].kind == LaneKind::compute) compute_lanes[parts.lanes[id].rank] = id;
  }
  // A counting sort of the dependencies by what is waited for: counts, then where each one's list
  // ends, then filled from behind, so that the lists begin where they should and ascend.
  for (const OperationId id : parts.operations.ids()) {
    for (const Dependency& d : parts.dependencies.of(id)) ++first_successor[d.before.position()];
  }
  for (std::size_t i = 0; i + 1 < first_successor.size(); ++i)
    first_successor[i + 1] += first_successor[i];
  for (OperationId id{parts.operations.size()}; id > OperationId{0};) {
    id = id - 1;
    for (const Dependency& d : parts.dependencies.of(id))
      successors[--first_successor[d.before.position()]] = id;
  }
}

Program::Program() : Program(Parts{}) {}

Program::Program(Parts parts) : made_(std::make_shared<const Made>(std::move(parts))) {}

namespace {

// Each operation the moment the last of those that it waits for is placed.
std::vector<OperationId> in_order(const Program& program) {
  std::vector<OperationId> order, ready;
  order.reserve(program.size());
  PerOperation<std::int32_t> waiting(program.size());  // for so many that are not placed
  for (const OperationId id : program.ids()) {
    waiting[id] = static_cast<std::int32_t>(program.predecessors(id).size()) +
                  (program.previous(id) == kNoOperation ? 0 : 1);
    if (waiting[id] == 0) ready.push_back(id);
  }
  const auto release = [&](OperationId id) {
    if (--waiting[id] == 0) ready.push_back(id);
  };
  while (!ready.empty()) {
    const OperationId id = ready.back();
    ready.pop_back();
    order.push_back(id);
    if (const OperationId next = program.next(id); next != kNoOperation) release(next);
    for (const OperationId next : program.successors(id)) release(next);
  }
  return order;
}

}  // namespace

const std::vector<OperationId>& Program::order() const {
  std::call_once(made_->ordered, [this] {
    made_->order = shape().ranks > kMostInRounds ? in_order(*this) : order_in_rounds(*this);
  });
  return made_->order;
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
