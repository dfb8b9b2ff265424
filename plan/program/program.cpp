// The neighbours of a program's operations that its parts do not spell out.
// SPDX-License-Identifier: Apache-2.0
#include "plan/program/program.hpp"

#include <algorithm>
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

// In rounds: ranks take turns, one action each, and every message goes as soon as it can. So few
// messages are in flight, and rounds of a steady phase are alike, which compiled programs
// (sim/engine/compiled_program) live by.
class Rounds {
 public:
  explicit Rounds(const Program& program)
      : program_(program),
        next_(program.lanes().size()),
        placed_(program.size()),
        edges_of_(program.shape().ranks) {
    order_.reserve(program.size());
    for (const LaneId lane : next_.ids()) next_[lane] = program.lane(lane).first;
    for (const EdgeId edge : program.edges().ids()) {
      edges_of_[program.edge(edge).from].push_back(edge);
      edges_of_[program.edge(edge).to].push_back(edge);
    }
  }

  // nullopt: a wave through far more ranks than it has micro-batches takes as many rounds, each
  // over all lanes.
  std::optional<std::vector<OperationId>> all() && {
    constexpr std::size_t kFew = 1 << 20, kEach = 64;
    const std::size_t round = program_.lanes().size() + program_.edges().size();
    std::size_t asked = 0;
    for (bool any = true; any; asked += round) {
      if (asked > kFew + kEach * program_.size()) return std::nullopt;
      any = false;
      for (const LaneId id : program_.lanes().ids()) {
        const Lane& lane = program_.lane(id);
        if (lane.kind != LaneKind::compute && lane.kind != LaneKind::reduce) continue;
        if (!advance(id)) continue;
        any = true;
        for (const EdgeId edge : edges_of_[lane.rank]) advance_edge(program_.edge(edge));
      }
      for (const Edge& edge : program_.edges()) {
        any |= advance_edge(edge);
        // Of blocking transfers a receive may wait for more than its send.
        while (advance(edge.receive_lane)) any = true;
      }
    }
    return std::move(order_);
  }

 private:
  // The next operation of a lane, if it may run.
  bool advance(LaneId lane) {
    OperationId& next = next_[lane];
    if (next == program_.lane(lane).last) return false;
    const auto placed = [this](const Dependency& d) { return placed_[d.before] != 0; };
    if (!std::ranges::all_of(program_.predecessors(next), placed)) return false;
    placed_[next] = 1;
    order_.push_back(next);
    ++next;
    return true;
  }
  // A message that nothing but its send holds back arrives directly behind it.
  bool advance_edge(const Edge& edge) {
    bool any = false;
    while (advance(edge.send_lane)) {
      any = true;
      advance(edge.receive_lane);
    }
    return any;
  }

  const Program& program_;
  Indexed<LaneId, OperationId> next_;  // by lane, what comes next
  PerOperation<std::uint8_t> placed_;
  Indexed<Rank, std::vector<EdgeId>> edges_of_;
  std::vector<OperationId> order_;
};

}  // namespace

const std::vector<OperationId>& Program::order() const {
  std::call_once(made_->ordered, [this] {
    auto rounds = Rounds(*this).all();
    made_->order = rounds ? *std::move(rounds) : in_order(*this);
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
