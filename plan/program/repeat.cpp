// Steps in a row on the same lanes. Dependencies stay within their step, but for receive slots:
// they are handed on from the last messages of one step to the first of the next.
// SPDX-License-Identifier: Apache-2.0
#include "plan/program/repeat.hpp"

#include <utility>

namespace weir {

Program repeat(const Program& program, int steps) {
  Program::Parts parts = program.parts();
  parts.operations = {};
  parts.dependencies = {};
  // Each lane is `steps` times as long and starts where those before it now end.
  for (Lane& lane : parts.lanes) {
    lane.first = OperationId{lane.first.value * steps};
    lane.last = OperationId{lane.last.value * steps};
  }
  const auto place = [&](OperationId id, int step) {
    const Lane& lane = program.lane_of(id);
    return parts.lanes[program.op(id).lane].first + step * lane.size() + (id - lane.first);
  };
  for (const Lane& lane : program.lanes()) {
    for (int step = 0; step < steps; ++step) {
      for (const OperationId id : lane.operations()) {
        parts.operations.push_back(program.op(id));
        parts.dependencies.next();
        for (const Dependency& d : program.predecessors(id))
          parts.dependencies.add(place(d.before, step), d.kind);
        // A slot that an earlier step's message, `slots` before this one, held.
        const std::int32_t index = step * lane.size() + (id - lane.first) - program.slots();
        // Within a step the program has its own.
        if (lane.kind != LaneKind::send || program.slots() == 0 ||
            id - lane.first >= program.slots() || index < 0)
          continue;
        const Lane& arrivals = program.lane(program.edge(lane.edge).receive_lane);
        const OperationId freed = program.consumer(arrivals.first + index % lane.size());
        parts.dependencies.add(place(freed, index / lane.size()), DependencyKind::slot);
      }
    }
  }
  return Program(std::move(parts));
}

}  // namespace weir
