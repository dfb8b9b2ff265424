// When each action was to start and when it did: the plainest way to hold a forecast timeline
// against a measured one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "plan/words/action.hpp"
#include "plan/words/units.hpp"
#include "traces/trace.hpp"

namespace weir {

// Starts are since their step's; the measured ones are medians over the measured steps.
struct ActionStart {
  Rank rank;
  Action action;
  Seconds predicted_start{0}, measured_start{0};
  Seconds predicted{0}, measured{0};  // durations
};

struct StartComparison {
  Seconds predicted{0};              // the step
  Seconds measured{0};               // median over steps
  std::vector<ActionStart> actions;  // by rank, then predicted start
};

// Of the computing actions that both have (F, B, I, W); others are left out. Precondition:
// `predicted` has one step, `measured` at least one.
[[nodiscard]] StartComparison compare_starts(const Trace& predicted, const Trace& measured);

// |predicted - measured start| over the measured step's length, of every action of one measured
// step that both have. Precondition: `predicted` has one step.
[[nodiscard]] std::vector<double> start_errors(const Trace& predicted, const Trace& measured,
                                               std::int32_t step);

struct StartErrors {
  int actions = 0;
  double median = 0;
  double p95 = 0;  // the least that 95 of 100 do not exceed
};
// Precondition: not empty.
[[nodiscard]] StartErrors summary(std::vector<double> errors);

}  // namespace weir
