// The event engine. An operation is ready when its lane predecessor and all its dependencies have
// ended; then it starts after its gap. Since every start is the maximum of ends that are already
// known, an operation can be timed the moment its last predecessor is: the loop is a walk in
// dependency order, and time order needs no queue. The order of the walk cannot change a result, so
// determinism comes for free; operations never timed are stuck.
// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/event_engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace weir {
namespace {

class Engine {
 public:
  Engine(const Program& program, const OperationCosts& costs) : program_(program), costs_(costs) {}

  std::variant<Timing, Stuck> run() {
    prepare();
    std::size_t timed = 0;
    while (!ready_.empty()) {
      const OperationId id = ready_.back();
      ready_.pop_back();
      time_operation(id);
      ++timed;
      release(lane_successor(id));
      for (auto at = first_successor_[index(id)]; at < first_successor_[index(id) + 1]; ++at) {
        release(successors_[static_cast<std::size_t>(at)]);
      }
    }
    if (timed < program_.operations.size()) return Stuck{report()};
    return std::move(timing_);
  }

 private:
  static constexpr OperationId kNone = -1;
  static std::size_t index(OperationId id) { return static_cast<std::size_t>(id); }

  void prepare() {
    const std::size_t count = program_.operations.size();
    timing_.start_ns.assign(count, 0);
    timing_.end_ns.assign(count, 0);
    waiting_.resize(count);
    first_successor_.assign(count + 1, 0);
    for (const Dependency& dependency : program_.dependencies)
      ++first_successor_[index(dependency.before) + 1];
    for (std::size_t i = 0; i < count; ++i) first_successor_[i + 1] += first_successor_[i];
    successors_.resize(program_.dependencies.size());
    std::vector<std::int32_t> filled(first_successor_.begin(), first_successor_.end() - 1);
    for (std::size_t i = 0; i < count; ++i) {
      const auto id = static_cast<OperationId>(i);
      const auto before = program_.predecessors(id);
      waiting_[i] =
          static_cast<std::int32_t>(before.size()) + (lane_predecessor(id) == kNone ? 0 : 1);
      for (const Dependency& dependency : before) {
        successors_[static_cast<std::size_t>(filled[index(dependency.before)]++)] = id;
      }
      if (waiting_[i] == 0) ready_.push_back(id);
    }
  }

  [[nodiscard]] OperationId lane_predecessor(OperationId id) const {
    return program_.lane_of(id).first == id ? kNone : id - 1;
  }
  [[nodiscard]] OperationId lane_successor(OperationId id) const {
    return program_.lane_of(id).last == id + 1 ? kNone : id + 1;
  }
  void release(OperationId id) {
    if (id != kNone && --waiting_[index(id)] == 0) ready_.push_back(id);
  }

  void time_operation(OperationId id) {
    const OperationId before = lane_predecessor(id);
    const std::int64_t lane_free = before == kNone ? 0 : timing_.end_ns[index(before)];
    std::int64_t start = lane_free;
    if (program_.lane_of(id).kind == LaneKind::receive) {
      // Spans from the start of its send; arrives `duration` after the send's end, in order.
      const OperationId send = program_.predecessors(id).front().before;
      timing_.start_ns[index(id)] = std::max(timing_.start_ns[index(send)], lane_free);
      timing_.end_ns[index(id)] =
          std::max(timing_.end_ns[index(send)] + costs_.duration_ns[index(id)], lane_free);
    } else {
      for (const Dependency& dependency : program_.predecessors(id)) {
        start = std::max(start, timing_.end_ns[index(dependency.before)]);
      }
      if (!costs_.gap_ns.empty()) start += costs_.gap_ns[index(id)];
      timing_.start_ns[index(id)] = start;
      timing_.end_ns[index(id)] = start + costs_.duration_ns[index(id)];
    }
    timing_.makespan = std::max(timing_.makespan, Nanoseconds(timing_.end_ns[index(id)]));
  }

  [[nodiscard]] std::string name(OperationId id) const {
    const Lane& lane = program_.lane_of(id);
    return fmt::format("{} (rank {})", to_string(program_.operations[index(id)].action),
                       lane.rank.value);
  }

  // The first operation of each lane that never ran, and what it still waits for.
  [[nodiscard]] std::string report() const {
    std::string text = "stuck:";
    for (const Lane& lane : program_.lanes) {
      for (OperationId id = lane.first; id < lane.last; ++id) {
        if (waiting_[index(id)] == 0) continue;
        for (const Dependency& dependency : program_.predecessors(id)) {
          if (waiting_[index(dependency.before)] == 0) continue;
          text += fmt::format("\n{} waits for {}", name(id), name(dependency.before));
        }
        break;
      }
    }
    return text;
  }

  const Program& program_;
  const OperationCosts& costs_;
  Timing timing_;
  std::vector<std::int32_t> waiting_;  // predecessors not yet timed
  std::vector<std::int32_t> first_successor_;
  std::vector<OperationId> successors_;
  std::vector<OperationId> ready_;
};

}  // namespace

std::variant<Timing, Stuck> simulate(const Program& program, const OperationCosts& costs) {
  return Engine(program, costs).run();
}

Trace to_trace(const Program& program, const Timing& timing) {
  Trace trace;
  trace.ranks = program.shape.ranks;
  trace.steps.push_back({Nanoseconds(0), timing.makespan});
  trace.spans.reserve(program.operations.size());
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    const auto id = static_cast<OperationId>(i);
    const Lane& lane = program.lane_of(id);
    Rank peer = lane.rank;
    if (lane.kind == LaneKind::send) peer = program.edges[static_cast<std::size_t>(lane.edge)].to;
    if (lane.kind == LaneKind::receive)
      peer = program.edges[static_cast<std::size_t>(lane.edge)].from;
    trace.spans.push_back({id, program.operations[i].action, lane.rank, lane.kind, peer, 0,
                           Nanoseconds(timing.start_ns[i]), Nanoseconds(timing.end_ns[i])});
  }
  return trace;
}

}  // namespace weir
