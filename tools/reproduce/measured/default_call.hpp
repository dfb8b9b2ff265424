// Measured runs as somebody forecasts them who has seen none of their source and names no software:
// the default call, with each constant that was chosen seeing them at what its certificate says it
// is without (plan/job/origins, `left_out`).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "costmodel/fit/builtin_interval.hpp"
#include "tools/reproduce/measured/judgement.hpp"
#include "tools/reproduce/measured/measured_run.hpp"

namespace weir {

// The same runs, in their order, on machines and software without their own source's constants.
// What the job itself says stays: products in FP8, stages, exchanges beside other work.
[[nodiscard]] std::vector<MeasuredRun> by_default_call(std::span<const MeasuredRun> runs);

// Of one source. Shares are of what they name; none is known where `of` is 0.
struct Proportion {
  int part = 0, of = 0;
  [[nodiscard]] double value() const { return static_cast<double>(part) / of; }
};
struct DefaultLine {
  std::string source;
  int rows = 0;                         // healthy times
  double median = 0, p95 = 0;           // of |forecast / measured - 1|
  double bias = 0;                      // the median of forecast / measured - 1
  int grids = 0;                        // of four layouts or more of one model, devices and batch
  double tau = 0;                       // Kendall's, the median over grids
  double regret = 0, worst_regret = 0;  // the median and the largest over grids
  Proportion failed_called_fitting, ran_called_no;
  Proportion covered;  // by the interval that other sources' errors give
  double width = 0;    // the median of its upper over its lower end
};

// Runs of one grid are of one source, model, kind of machine, number of devices, sequence and
// mini-batch: layouts among which somebody chooses.
[[nodiscard]] std::string layout_grid(const MeasuredRun& run);

// By how much the layout that is forecast fastest of those that surely fit is measured above the
// best of all. 0 of 0 layouts.
struct Layout {
  double measured = 0, forecast = 0;
  Fit fit = Fit::yes;
};
[[nodiscard]] double regret_of_sure(std::span<const Layout> layouts);

// What is left of errors in ratios of two runs, each forecast by its own software: a group for each
// cluster and stack and distance of plans.
[[nodiscard]] std::vector<GroupErrors> ratio_errors(std::span<const MeasuredRun> runs,
                                                    std::span<const RunForecast> forecasts);

// The errors of each source's groups of one cluster and software, for intervals where no software
// is named, and a line for each source. `forecasts` are of by_default_call(runs).
struct DefaultTable {
  std::vector<DefaultLine> lines;
  std::vector<GroupErrors> errors;
};
[[nodiscard]] DefaultTable default_table(std::span<const MeasuredRun> runs,
                                         std::span<const RunForecast> forecasts);

}  // namespace weir
