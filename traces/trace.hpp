// What happened, or is predicted to: spans of operations on lanes, counters, and where it came
// from. Predicted and measured traces are the same type, so comparing is a join on (step, action).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "plan/program/program.hpp"
#include "plan/words/action.hpp"
#include "plan/words/units.hpp"

namespace weir {

struct Span {
  OperationId operation;  // action id, of the program
  Action action;
  Rank rank;
  LaneKind lane = LaneKind::compute;
  Rank peer;              // other end of a send or receive lane; otherwise = rank
  std::int32_t step = 0;  // training step, 0-based
  Nanoseconds start{0};   // since the trace's origin; one clock for all ranks
  Nanoseconds end{0};
  Nanoseconds rebuild{0};  // of the duration, what rebuilt layers (recompute full)

  [[nodiscard]] Nanoseconds duration() const { return end - start; }
  bool operator==(const Span&) const = default;
};

enum class CounterUnit : std::uint8_t { bytes, count };

// A step function of time on one rank: each sample holds until the next.
struct Counter {
  std::string name;  // "memory", "memory/activations", "in flight"
  Rank rank;
  CounterUnit unit = CounterUnit::count;
  struct Sample {
    Nanoseconds time{0};
    std::int64_t value = 0;
    bool operator==(const Sample&) const = default;
  };
  std::vector<Sample> samples;  // ascending in time
  bool operator==(const Counter&) const = default;
};

enum class TraceOrigin : std::uint8_t { predicted, measured };

// Start and end of a training step on the common clock; end includes the optimizer and its barrier.
struct StepWindow {
  Nanoseconds start{0};
  Nanoseconds end{0};
  bool operator==(const StepWindow&) const = default;
};

struct Trace {
  TraceOrigin origin = TraceOrigin::predicted;
  std::int32_t ranks = 0;
  std::vector<StepWindow> steps;
  std::vector<Span> spans;  // ordered by (step, operation)
  std::vector<Counter> counters;
  std::map<std::string, std::string> info;  // machine, seed, version, plan sha256, backend, labels

  // One step's spans by operation.
  [[nodiscard]] IndexedView<OperationId, const Span> of_step(std::int32_t step) const;
  bool operator==(const Trace&) const = default;
};

// Puts a later run of the same program behind `trace`: steps are renumbered, and times and counters
// moved so that its first step starts where the last one of `trace` ended. Precondition: same
// program, so the same counters in order.
void append(Trace& trace, const Trace& later);

}  // namespace weir
