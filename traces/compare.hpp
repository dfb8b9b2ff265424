// Prediction against measurement: a join by action id, and the way from the predicted to the
// measured step time in parts that sum.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/program/program.hpp"
#include "traces/metrics.hpp"
#include "traces/trace.hpp"

namespace weir {

// Actions of one kind on one rank: sums over a step, the measured one a median over steps, action
// by action.
struct KindError {
  ActionKind kind = ActionKind::F;
  Rank rank;
  int actions = 0;
  Seconds predicted{0};
  Seconds measured{0};
  std::optional<double>
      median_abs_error;  // of |predicted - measured| / measured over the actions that took any time
};

// One part of the waterfall: measured minus predicted, averaged over ranks.
struct WaterfallPart {
  std::string cause;  // "F", "B", ..., then "fill", "drain", "imbalance", "communication", "host",
                      // "optimizer wait"
  Seconds difference{0};
};

struct Comparison {
  Seconds predicted{0};
  Seconds measured{0};  // median over steps
  std::optional<double>
      error;  // (predicted - measured) / measured; none where nothing was measured
  std::int32_t typical_step =
      0;  // the measured step of median length (the shorter of two middle ones)
  std::vector<KindError> kinds;  // by kind, then rank
  // Sums to measured - predicted. An even number of steps has two in the middle: the parts then
  // lead to the shorter, and a last one, "median of two steps", from there to their mean.
  std::vector<WaterfallPart> waterfall;
  StepMetrics predicted_metrics, measured_metrics;
};

// Preconditions: both traces are of `program`; `predicted` has one step, `measured` at least one.
[[nodiscard]] Comparison compare(const Program& program, const Trace& predicted,
                                 const Trace& measured);

}  // namespace weir
