// Several steps of a program as one.
// SPDX-License-Identifier: Apache-2.0
#include "plan/program/repeat.hpp"

#include <cstddef>
#include <vector>

namespace weir {
namespace {

std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }

// Per receive: the operation that takes its message, and with it frees its slot.
std::vector<OperationId> consumers(const Program& program) {
  std::vector<OperationId> consumer(program.operations.size(), -1);
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    for (const Dependency& d : program.predecessors(static_cast<OperationId>(i))) {
      if (d.kind == DependencyKind::data && program.lane_of(d.before).kind == LaneKind::receive)
        consumer[at(d.before)] = static_cast<OperationId>(i);
    }
  }
  return consumer;
}

}  // namespace

Program repeat(const Program& program, int steps) {
  Program repeated = program;
  repeated.operations.clear();
  repeated.dependency_first.clear();
  repeated.dependencies.clear();
  // Each lane is `steps` times as long and starts where those before it now end.
  for (Lane& lane : repeated.lanes) {
    lane.first *= steps;
    lane.last *= steps;
  }
  const auto place = [&](OperationId id, int step) {
    const Lane& lane = program.lane_of(id);
    return lane.first * steps + step * (lane.last - lane.first) + (id - lane.first);
  };
  const std::vector<OperationId> consumer = consumers(program);
  for (const Lane& lane : program.lanes) {
    const std::int32_t messages = lane.last - lane.first;
    for (int step = 0; step < steps; ++step) {
      for (OperationId id = lane.first; id < lane.last; ++id) {
        repeated.operations.push_back(program.operations[at(id)]);
        repeated.dependency_first.push_back(
            static_cast<std::int32_t>(repeated.dependencies.size()));
        for (const Dependency& d : program.predecessors(id))
          repeated.dependencies.push_back({place(d.before, step), d.kind});
        // A slot that an earlier step's message `slots` before this one held.
        const std::int32_t index = step * messages + (id - lane.first) - program.slots;
        if (lane.kind != LaneKind::send || program.slots == 0 || id - lane.first >= program.slots ||
            index < 0)
          continue;
        const Lane& arrivals = program.lanes[at(program.edges[at(lane.edge)].receive_lane)];
        const OperationId freed = consumer[at(arrivals.first + index % messages)];
        repeated.dependencies.push_back({place(freed, index / messages), DependencyKind::slot});
      }
    }
  }
  repeated.dependency_first.push_back(static_cast<std::int32_t>(repeated.dependencies.size()));
  return repeated;
}

}  // namespace weir
