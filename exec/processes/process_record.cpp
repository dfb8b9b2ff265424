// A process's times and losses as one array of numbers, and all of them joined to a result.
// SPDX-License-Identifier: Apache-2.0
#include "exec/processes/process_record.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "exec/rank/step_trace.hpp"
#include "exec/run/run_parts.hpp"
#include "exec/streams/launch_order.hpp"

namespace weir {
namespace {

void join_messages(const Program& program, StepClock& clock) {
  for (const Edge& edge : program.edges()) {
    const Lane& sends = program.lane(edge.send_lane);
    const OperationId receives = program.lane(edge.receive_lane).first;
    for (const OperationId send : sends.operations()) {
      const OperationId receive = receives + (send - sends.first);
      // A message begins when both of its ends have: the sender's launch, the receiver's slot.
      clock.start_ns[send.position()] =
          std::max(clock.start_ns[send.position()], clock.start_ns[receive.position()]);
      if (send > sends.first) {  // on its way is one message after the other
        clock.start_ns[send.position()] =
            std::max(clock.start_ns[send.position()], clock.end_ns[send.position() - 1]);
      }
      clock.start_ns[receive.position()] = clock.start_ns[send.position()];
      clock.end_ns[receive.position()] =
          std::max(clock.end_ns[receive.position()], clock.start_ns[send.position()]);
      // Clamped: two clocks agree to their uncertainty only, and nothing may end before it began.
      clock.end_ns[send.position()] =
          std::clamp(clock.end_ns[send.position()], clock.start_ns[send.position()],
                     clock.end_ns[receive.position()]);
    }
  }
}

void join_reductions(const Program& program, StepClock& clock) {
  std::vector<std::int64_t> latest(program.size(), std::numeric_limits<std::int64_t>::max());
  for (std::size_t i = 0; i < program.size(); ++i) {
    if (program.op(OperationId{i}).action.kind != ActionKind::OPTIMIZER) continue;
    for (const Dependency& reduce : program.predecessors(OperationId{i})) {
      latest[reduce.before.position()] =
          std::min(latest[reduce.before.position()], clock.start_ns[i]);
    }
  }
  for (std::size_t i = 0; i < program.size(); ++i) {
    if (program.op(OperationId{i}).action.kind != ActionKind::REDUCE_GRAD) continue;
    std::int64_t& start = clock.start_ns[i];
    for (const Dependency& gradient : program.predecessors(OperationId{i})) {
      start = std::max(start, clock.end_ns[gradient.before.position()]);
    }
    // Not after the first optimizer that waited for it began.
    clock.end_ns[i] = std::max(start, std::min(clock.end_ns[i], latest[i]));
  }
}

// Where clocks disagree, a message may seem to arrive before it was sent. What waited for it is put
// behind it, forwards through the program: nothing goes before the last end that anyone saw.
void put_behind_what_was_waited_for(const Program& program, const std::vector<OperationId>& order,
                                    StepClock& clock) {
  for (const OperationId id : order) {
    std::int64_t& start = clock.start_ns[id.position()];
    std::int64_t& end = clock.end_ns[id.position()];
    std::int64_t ready = std::numeric_limits<std::int64_t>::min();
    // Two bounds: what came before on its lane, and what it waited for.
    if (const OperationId before = program.previous(id); before != kNoOperation)
      ready = clock.end_ns[before.position()];
    for (const Dependency& dependency : program.predecessors(id))
      ready = std::max(ready, clock.end_ns[dependency.before.position()]);
    if (program.lane_of(id).kind == LaneKind::receive) {  // from its send's start on
      start = clock.start_ns[program.peer(id).position()];
      end = std::max({start, end, ready});
    } else {
      start = std::max(start, ready);
      end = std::max(start, end);
    }
  }
}

}  // namespace

ProcessRecord::ProcessRecord(const Program& program, Rank rank, RecordShape shape)
    : shape_(shape), units_(static_cast<std::size_t>(program.shape().units())) {
  for (const Lane& lane : program.lanes()) {
    for (OperationId id = lane.first; id < lane.last && lane.rank == rank; ++id) own_.push_back(id);
  }
  numbers_.resize(step_begin(shape.steps) + kLast);
}

std::size_t ProcessRecord::step_begin(int step) const {
  const std::size_t always = static_cast<std::size_t>(step) * (3 + units_);
  const int traced = shape_.trace ? std::max(0, step - shape_.warmup_steps) : 0;
  return always + traced * 3 * own_.size();
}

void ProcessRecord::add(const ProcessStep& step, const StepClock& clock,
                        const std::vector<double>& losses) {
  std::size_t place = step_begin(step_);
  for (const std::int64_t number : {step.began_ns, step.ended_ns, step.allocations})
    numbers_[place++] = number;
  for (std::size_t unit = 0; unit < units_; ++unit) {
    // A record is one array, and so one message: a loss travels as its bits.
    numbers_[place++] = std::bit_cast<std::int64_t>(losses.empty() ? 0.0 : losses[unit]);
  }
  if (shape_.trace && step_ >= shape_.warmup_steps) {
    for (const OperationId id : own_) {
      numbers_[place++] = clock.start_ns[id.position()];
      numbers_[place++] = clock.end_ns[id.position()];
      numbers_[place++] = clock.rebuilt_ns(id.position());
    }
  }
  ++step_;
}

void ProcessRecord::end_after(int steps) {
  shape_.steps = steps;
  numbers_.resize(step_begin(steps) + kLast);
}

void ProcessRecord::finish(Bytes peak, Bytes scratch, const std::optional<DeviceUse>& use) {
  const DeviceUse of = use.value_or(DeviceUse{});
  const std::array<std::int64_t, kLast> numbers{peak.count(),
                                                scratch.count(),
                                                use ? 1 : 0,
                                                of.device,
                                                of.multiprocessors,
                                                of.pool_peak.count(),
                                                of.pool_reserved.count(),
                                                of.device_used.count(),
                                                of.ranks};
  std::copy(numbers.begin(), numbers.end(), numbers_.end() - kLast);
}

std::optional<DeviceUse> ProcessRecord::device_use() const {
  if (last(2) == 0) return std::nullopt;
  return DeviceUse{.sharing = {},
                   .device = static_cast<int>(last(3)),
                   .multiprocessors = static_cast<int>(last(4)),
                   .ranks = static_cast<int>(last(8)),
                   .pool_peak = Bytes(last(5)),
                   .pool_reserved = Bytes(last(6)),
                   .device_used = Bytes(last(7))};
}

ProcessStep ProcessRecord::step(int step) const {
  const std::size_t first = step_begin(step);
  return {numbers_[first], numbers_[first + 1], numbers_[first + 2]};
}

double ProcessRecord::loss(int step, std::int32_t unit) const {
  return std::bit_cast<double>(numbers_[step_begin(step) + 3 + unit]);
}

void ProcessRecord::restore(int step, const ClockLine& line, StepClock& clock) const {
  std::size_t place = step_begin(step) + 3 + units_;
  for (const OperationId id : own_) {
    clock.start_ns[id.position()] = line.to_leader(numbers_[place++]);
    clock.end_ns[id.position()] = line.to_leader(numbers_[place++]);
    const std::int64_t rebuild = numbers_[place++];  // a duration: clocks do not part in it
    if (!clock.rebuild_ns.empty()) clock.rebuild_ns[id.position()] = rebuild;
  }
}

void join_ends(const Program& program, const std::vector<OperationId>& order, StepClock& clock) {
  join_messages(program, clock);
  join_reductions(program, clock);
  put_behind_what_was_waited_for(program, order, clock);
}

RunResult merge(const Program& program, RecordShape shape,
                const std::vector<ProcessRecord>& records, const std::vector<ClockLine>& lines,
                int tp) {
  const std::size_t ranks = program.shape().ranks;
  const std::size_t of_replica = ranks * static_cast<std::size_t>(tp);
  RunResult result;
  StepClock clock;
  clock.resize(program.size());
  const std::vector<OperationId> order = launch_order(program);
  std::int64_t origin = 0;
  for (int step = 0; step < shape.steps; ++step) {
    std::int64_t start = std::numeric_limits<std::int64_t>::min(), end = start;
    StepResult made;
    for (std::size_t p = 0; p < records.size(); ++p) {
      const ProcessStep seen = records[p].step(step);
      // The step is from the last process at the barrier before it to the last at the one after it.
      start = std::max(start, lines[p].to_leader(seen.began_ns));
      end = std::max(end, lines[p].to_leader(seen.ended_ns));
      made.allocations += seen.allocations;
    }
    made.time = Seconds(Nanoseconds(end - start));
    // Devices that divide layers all find the same loss: the first of them speaks for its replica.
    for (std::size_t first = 0; first < records.size(); first += of_replica) {
      for (std::int32_t unit = 0; unit < program.shape().units(); ++unit) {
        double loss = 0;  // only the rank with the unit's last stage has one
        for (std::size_t rank = 0; rank < ranks; ++rank)
          loss += records[first + rank].loss(step, unit);
        made.loss += loss;
      }
    }
    result.steps.push_back(made);
    if (!shape.trace || step < shape.warmup_steps) continue;
    // The trace shows the first replica: the others do the same actions.
    for (std::size_t rank = 0; rank < ranks; ++rank)
      records[rank].restore(step, lines[rank], clock);
    join_ends(program, order, clock);
    // Traces begin at 0 with the first step that is measured.
    if (step == shape.warmup_steps) origin = start;
    append_step(result.trace, program, clock, {Nanoseconds(start), Nanoseconds(end)}, origin);
  }
  result.step_time = median_step(result.steps, shape.warmup_steps);
  result.trace.origin = TraceOrigin::measured;
  result.trace.ranks = program.shape().ranks;
  return result;
}

}  // namespace weir
