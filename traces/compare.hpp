// Prediction against measurement: a join by action id, and the way from the predicted to the measured step time in
// parts that sum. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "plan/program.hpp"
#include "traces/metrics.hpp"
#include "traces/trace.hpp"

namespace weir {

// Actions of one kind on one rank: sums over a step, the measured one a median over steps, action by action.
struct KindError {
  ActionKind kind = ActionKind::F;
  Rank rank;
  int actions = 0;
  Seconds predicted{0};
  Seconds measured{0};
  double median_abs_error = 0;  // of |predicted - measured| / measured over the actions
};

// One part of the waterfall: measured minus predicted, averaged over ranks.
struct WaterfallPart {
  std::string cause;  // "F", "B", ..., then "fill", "drain", "imbalance", "communication", "host", "optimizer wait"
  Seconds difference{0};
};

struct Comparison {
  Seconds predicted{0};
  Seconds measured{0};                   // median over steps
  double error = 0;                      // (predicted - measured) / measured
  std::int32_t typical_step = 0;         // the measured step of median length, which the waterfall ends at
  std::vector<KindError> kinds;          // by kind, then rank
  std::vector<WaterfallPart> waterfall;  // sums to the typical step's time - predicted, to the nanosecond per rank
  StepMetrics predicted_metrics, measured_metrics;
};

// Preconditions: both traces are of `program`; `predicted` has one step, `measured` at least one.
[[nodiscard]] Comparison compare(const Program& program, const Trace& predicted, const Trace& measured);

}  // namespace weir
