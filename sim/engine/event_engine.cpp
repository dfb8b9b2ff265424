// The event engine. An operation starts after its gap when its lane predecessor and all its
// dependencies have ended. Since every start is the maximum of ends that are already known, time
// order needs no queue: the loop is a walk in the program's order, which cannot change a result, so
// determinism comes for free. Operations that have no place in it are stuck.
// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/event_engine.hpp"

#include <algorithm>
#include <utility>

#include "plan/program/deadlock.hpp"

namespace weir {
namespace {

class Engine {
 public:
  Engine(const Program& program, const OperationCosts& costs) : program_(program), costs_(costs) {
    timing_.start_ns.assign(program_.size(), 0);
    timing_.end_ns.assign(program_.size(), 0);
  }

  std::variant<Timing, Stuck> run() {
    const std::vector<OperationId>& order = program_.order();
    if (order.size() < program_.size()) return Stuck{describe_deadlock(program_)};
    for (const OperationId id : order) time_operation(id);
    return std::move(timing_);
  }

 private:
  void time_operation(OperationId id) {
    const Lane& lane = program_.lane_of(id);
    const std::int64_t lane_free = id == lane.first ? 0 : timing_.end_ns[id - 1];
    std::int64_t start = lane_free;
    if (lane.kind == LaneKind::receive) {
      // Spans from the start of its send; arrives `duration` after the send's end, in order.
      const OperationId send = program_.peer(id);
      timing_.start_ns[id] = std::max(timing_.start_ns[send], lane_free);
      timing_.end_ns[id] = std::max(timing_.end_ns[send] + costs_.duration_ns[id], lane_free);
    } else {
      for (const Dependency& dependency : program_.predecessors(id)) {
        start = std::max(start, timing_.end_ns[dependency.before]);
      }
      if (!costs_.gap_ns.empty()) start += costs_.gap_ns[id];
      timing_.start_ns[id] = start;
      timing_.end_ns[id] = start + costs_.duration_ns[id];
    }
    timing_.makespan = std::max(timing_.makespan, Nanoseconds(timing_.end_ns[id]));
  }

  const Program& program_;
  const OperationCosts& costs_;
  Timing timing_;
};

}  // namespace

std::variant<Timing, Stuck> simulate(const Program& program, const OperationCosts& costs) {
  return Engine(program, costs).run();
}

Trace to_trace(const Program& program, const Timing& timing, const OperationCosts& costs) {
  Trace trace;
  trace.ranks = program.shape().ranks;
  trace.steps.push_back({Nanoseconds(0), timing.makespan});
  trace.spans.reserve(program.size());
  for (const OperationId id : program.ids()) {
    const Lane& lane = program.lane_of(id);
    trace.spans.push_back({id, program.op(id).action, lane.rank, lane.kind, program.peer_rank(id),
                           0, Nanoseconds(timing.start_ns[id]), Nanoseconds(timing.end_ns[id])});
    if (costs.rebuild_ns.empty() || costs.rebuild_ns[id] == 0) continue;
    // Where contention made the span longer, its rebuilding is longer in the same share.
    Span& span = trace.spans.back();
    const double share =
        static_cast<double>(costs.rebuild_ns[id]) / static_cast<double>(costs.duration_ns[id]);
    span.rebuild = to_nanoseconds(to_seconds(span.duration()) * share);
  }
  return trace;
}

}  // namespace weir
