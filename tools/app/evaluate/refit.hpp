// Costs fitted to trials' runs, and whether they forecast plans they have not seen better than the
// costs before them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "costmodel/fit/calibrate.hpp"
#include "tools/app/evaluate/trial.hpp"

namespace weir::app {

struct Refit {
  Costs costs;  // fitted to all runs, or the first ones where `taken` is false
  std::vector<FitQuality> quality;
  std::vector<std::optional<Seconds>> left_out;  // each trial by costs fitted to the others' runs
  double error_first = 0;  // median |forecast - measured| / measured by the first costs
  std::optional<double> error_left_out;  // the same of `left_out`; none where there is one trial
  bool taken = true;
};

// `first` is what the trials were forecast by. The fit is taken unless its error on plans left out,
// three or more, is the larger by over a hundredth, half of what forecasts may be off on a quiet
// machine: what it learnt is then of those runs and not of the machine.
[[nodiscard]] Refit refit(const std::vector<Trial>& trials, const Costs& first,
                          const Cluster& cluster);

// Why the first costs stand, in one line; empty where the fit was taken.
[[nodiscard]] std::string why_not_taken(const Refit& refit);

}  // namespace weir::app
