// Spans from starts and ends.
// SPDX-License-Identifier: Apache-2.0
#include "exec/rank/step_trace.hpp"

#include <algorithm>

namespace weir {

void append_step(Trace& trace, const Program& program, const StepClock& clock, StepWindow window,
                 std::int64_t origin) {
  const auto step = static_cast<std::int32_t>(trace.steps.size());
  trace.steps.push_back({window.start - Nanoseconds(origin), window.end - Nanoseconds(origin)});
  for (std::size_t i = 0; i < program.size(); ++i) {
    const auto id = OperationId{i};
    const Lane& lane = program.lane_of(id);
    // Who is at the other end; of a compute action the rank itself.
    Rank peer = lane.rank;
    if (lane.kind == LaneKind::send) peer = program.edge(lane.edge).to;
    if (lane.kind == LaneKind::receive) peer = program.edge(lane.edge).from;
    trace.spans.push_back({id, program.op(OperationId{i}).action, lane.rank, lane.kind, peer, step,
                           Nanoseconds(clock.start_ns[i] - origin),
                           Nanoseconds(clock.end_ns[i] - origin)});
    Span& span = trace.spans.back();
    // Read at other moments than the action's ends: a part must not become longer than the whole.
    span.rebuild = std::min(Nanoseconds(clock.rebuilt_ns(i)), span.duration());
  }
}

}  // namespace weir
