// Operations by the time at which they would begin if a compute action took 1, and B took 2.
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

std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }

std::int64_t unit_time(const Program& program, OperationId id) {
  if (program.lane_of(id).kind != LaneKind::compute) return 0;
  return program.operations[at(id)].action.kind == ActionKind::B ? 2 : 1;
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

// Who waits for each operation, its lane successor included, and for how many each waits.
struct Waits {
  std::vector<std::vector<OperationId>> successors;
  std::vector<std::int32_t> open;

  explicit Waits(const Program& program)
      : successors(program.operations.size()), open(program.operations.size(), 0) {
    for (std::size_t i = 0; i < program.operations.size(); ++i) {
      const auto id = static_cast<OperationId>(i);
      if (id > program.lane_of(id).first) add(id - 1, id);
      for (const Dependency& dependency : program.predecessors(id)) add(dependency.before, id);
    }
  }

 private:
  void add(OperationId before, OperationId after) {
    successors[at(before)].push_back(after);
    ++open[at(after)];
  }
};

}  // namespace

std::vector<OperationId> launch_order(const Program& program) {
  Waits waits(program);
  using Ready =
      std::tuple<std::int64_t, int, std::int32_t, OperationId>;  // when, its turn by lane, rank
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
  std::vector<std::int64_t> start(program.operations.size(), 0);
  const auto offer = [&](OperationId id) {
    const Lane& lane = program.lane_of(id);
    ready.emplace(start[at(id)], turn(lane.kind), lane.rank.value, id);
  };
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    if (waits.open[i] == 0) offer(static_cast<OperationId>(i));
  }
  std::vector<OperationId> order;
  order.reserve(program.operations.size());
  while (!ready.empty()) {
    // The earliest; at one time by kind of lane, then rank, then id: the same in every process.
    const auto [time, kind, rank, id] = ready.top();
    ready.pop();
    order.push_back(id);
    for (const OperationId next : waits.successors[at(id)]) {
      // Ready when the last of those it waits for has ended.
      start[at(next)] = std::max(start[at(next)], time + unit_time(program, id));
      if (--waits.open[at(next)] == 0) offer(next);
    }
  }
  if (order.size() < program.operations.size()) {
    throw RunFailed("the plan can deadlock: " +
                    describe_cycle(program, shortest_cycle(program).value()));
  }
  return order;
}

}  // namespace weir
