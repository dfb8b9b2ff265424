// SPDX-License-Identifier: Apache-2.0
#include "exec/streams/launch_order.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <tuple>

#include "plan/program/deadlock.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

std::int64_t unit_time(const Program& program, OperationId id) {
  if (program.lane_of(id).kind != LaneKind::compute) return 0;
  return program.op(id).action.kind == ActionKind::B ? 2 : 1;
}

// Of what begins at one time. A receive is ready at the time of its send, so none comes between the
// two.
int turn(LaneKind kind) {
  switch (kind) {
    case LaneKind::receive:
      return 0;
    case LaneKind::send:
      return 1;
    case LaneKind::reduce:
      return 2;
    default:
      return 3;
  }
}

}  // namespace

std::vector<OperationId> launch_order(const Program& program) {
  // Earliest first; ties go by the lane's turn, then rank, then number, so every process finds the
  // same order.
  using Ready = std::tuple<std::int64_t, int, Rank, OperationId>;  // when, its turn by lane
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
  PerOperation<std::int64_t> start(program.size());
  PerOperation<std::size_t> open(program.size());  // what it waits for and is not in order yet
  const auto offer = [&](OperationId id) {
    const Lane& lane = program.lane_of(id);
    ready.emplace(start[id], turn(lane.kind), lane.rank, id);
  };
  for (const OperationId id : program.ids()) {
    // Its predecessors, and what stands before it in its lane.
    open[id] = program.predecessors(id).size() + (program.previous(id) == kNoOperation ? 0 : 1);
    if (open[id] == 0) offer(id);
  }
  std::vector<OperationId> order;
  order.reserve(program.size());
  while (!ready.empty()) {
    const OperationId id = std::get<OperationId>(ready.top());
    const std::int64_t end = std::get<0>(ready.top()) + unit_time(program, id);
    ready.pop();
    order.push_back(id);
    const auto release = [&](OperationId next) {
      start[next] = std::max(start[next], end);
      if (--open[next] == 0) offer(next);
    };
    for (const OperationId next : program.successors(id)) release(next);
    if (program.next(id) != kNoOperation) release(program.next(id));
  }
  // Whatever is left waits in a circle.
  if (order.size() < program.size())
    throw RunFailed("the plan can deadlock: " + describe_deadlock(program));
  return order;
}

}  // namespace weir
