// Goes round the lanes until none goes on.
// SPDX-License-Identifier: Apache-2.0
#include "plan/program/rounds.hpp"

#include <algorithm>
#include <utility>

namespace weir {
namespace {

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

  std::vector<OperationId> all() && {
    for (bool any = true; any;) {
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

std::vector<OperationId> order_in_rounds(const Program& program) { return Rounds(program).all(); }

}  // namespace weir
