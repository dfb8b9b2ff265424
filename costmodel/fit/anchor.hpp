// Anchors built-in costs to a few measured steps: of what they say of compute, of messages and of
// what comes once a step, how much longer each takes on the user's cluster.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "costmodel/table/anchor.hpp"
#include "plan/words/units.hpp"

namespace weir {

// One measured run, and what built-in costs say of its plan by whatever factors; their step time is
// homogeneous in the three factors of time (all of them doubled double it).
struct MeasuredStep {
  struct Prediction {
    Seconds step_time{0};
    Bytes memory{0};  // of the fullest device
  };
  Seconds step_time{0};
  std::optional<Bytes> memory;
  // Runs of one family differ in the number of micro-batches or replicas alone, and share what the
  // model misses of them.
  int family = 0;
  std::function<Prediction(const AnchorFactors& factors)> forecast;
};

struct AnchorFit {
  AnchorFactors factors;
  std::vector<double> residuals;  // by run: log(measured / forecast) of the step time
  std::vector<std::optional<double>> memory_residuals;  // where memory was measured
};

// A log ratio that repeats of one job do not show: figures that miss by more contradict the others.
inline constexpr double kContradiction = 0.05;

// The factors with which `runs` are forecast best (docs/theory.md 8.5). One run gets one scale of
// all times, and is forecast exactly. Several draw the three factors apart as far as they can tell
// them apart; what they cannot, and what one run out of line asks for, stays with the scale common
// to all. The factors are never worse in the median |residual| over the runs than that scale, or
// than 1. Memory has one factor: the median's. Precondition: at least one run, forecasts above 0.
[[nodiscard]] AnchorFit fit_anchor(std::span<const MeasuredStep> runs);

}  // namespace weir
