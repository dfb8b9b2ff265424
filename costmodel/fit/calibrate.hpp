// Learns from measured runs: how much longer each kind of action takes in a running pipeline than
// the profile said, what the host adds before an action and a barrier after the last, and how far
// forecasts may be off.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "costmodel/fit/observations.hpp"

namespace weir {

// How well one factor describes its observations: the residuals of log(measured / predicted) about
// it.
struct FitQuality {
  // "F", "B", ..., "F alone" of quiet neighbours, "fixed" for what any micro-batch size takes.
  std::string kind;
  double factor = 1;
  int observations = 0;        // (plan, stage) pairs
  double median_residual = 0;  // median |log ratio - log factor|, by time
};

struct Calibration {
  Costs costs;  // basis calibrated
  std::vector<FitQuality> quality;
};

// Huber location of the log ratios (Huber 1964; threshold 1.345 scaled by the median absolute
// deviation), each observation weighted by its time, per action kind, for K = 1 apart from K > 1,
// and where the runs had several micro-batch sizes one factor of what passes take at any of them.
// `base` is what the runs' predictions are made from; its own corrections are kept as the starting
// point and multiplied. Cold first steps are left out by the caller.
[[nodiscard]] Calibration calibrate(const Costs& base, std::span<const CalibrationRun> runs,
                                    const Cluster& cluster);

}  // namespace weir
