// What a process brings home from a run, and how the leader makes one result of all of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "exec/device/backend.hpp"
#include "exec/processes/clock_offsets.hpp"
#include "exec/rank/transport.hpp"
#include "exec/run/run_result.hpp"
#include "plan/program/program.hpp"

namespace weir {

struct RecordShape {
  int steps = 0;         // warm-up included
  int warmup_steps = 0;  // not in the trace
  bool trace = true;
};

// A step as one process saw it: when it reached the barrier before it and the one after it, and
// what it allocated.
struct ProcessStep {
  std::int64_t began_ns = 0, ended_ns = 0;
  std::int64_t allocations = 0;  // StepResult::allocations, of this process
};

// One process's part. Its length as numbers is known to the leader beforehand, so it travels as one
// message.
class ProcessRecord {
 public:
  ProcessRecord(const Program& program, Rank rank, RecordShape shape);

  // The next step, with the times of its own operations and its losses by micro-batch.
  void add(const ProcessStep& step, const StepClock& clock, const std::vector<double>& losses);
  // The run ends after so many steps, all of which were added.
  void end_after(int steps);
  // At the end; `use` but for the label, which the leader knows: it is the same for all ranks.
  void finish(Bytes peak, Bytes scratch, const std::optional<DeviceUse>& use);

  [[nodiscard]] std::vector<std::int64_t>& numbers() {
    return numbers_;
  }  // to send, or to receive into

  [[nodiscard]] ProcessStep step(int step) const;
  [[nodiscard]] double loss(int step, std::int32_t unit) const;
  // Copies the rank's operations of a traced step into `clock`, moved to the leader's clock.
  void restore(int step, const ClockLine& line, StepClock& clock) const;
  [[nodiscard]] Bytes peak() const { return Bytes(last(0)); }
  [[nodiscard]] Bytes scratch() const { return Bytes(last(1)); }
  [[nodiscard]] std::optional<DeviceUse> device_use() const;

 private:
  static constexpr std::size_t kLast = 9;  // numbers behind those of the steps
  [[nodiscard]] std::int64_t last(std::size_t index) const {
    return numbers_[numbers_.size() - kLast + index];
  }
  [[nodiscard]] std::size_t step_begin(int step) const;

  RecordShape shape_;
  std::size_t units_;
  std::vector<OperationId> own_;  // operations of this rank
  std::vector<std::int64_t> numbers_;
  int step_ = 0;
};

// Makes the ends of messages and reductions agree, which two processes saw each from its side: a
// receive begins with its send and a send ends by the arrival; a reduction begins when the last
// gradient was whole and ends before any copy's optimizer. What still began before what it waited
// for had ended, as clocks that differ by microseconds say it, is moved behind it. `order`: of all
// operations, each after what it waits for (exec/streams/launch_order).
void join_ends(const Program& program, const std::vector<OperationId>& order, StepClock& clock);

// The leader's result. `records` and `lines`: by process, replica after replica, of each the `tp`
// devices of tensor parallelism one after the other, which all have its losses.
[[nodiscard]] RunResult merge(const Program& program, RecordShape shape,
                              const std::vector<ProcessRecord>& records,
                              const std::vector<ClockLine>& lines, int tp = 1);

}  // namespace weir
