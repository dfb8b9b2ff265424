// Errors of forecasts over groups of measured runs: with a level learnt elsewhere, and anchored to
// one run of the group.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace weir {

// One measured quantity of one run. Ratios of times are those of durations, also where a rate was
// printed.
struct Judged {
  std::size_t run = 0;  // its place among the runs
  std::string cluster, stack;
  double log_error = 0;   // log(measured / the forecast as it comes)
  double log_factor = 0;  // learnt from other clusters and stacks
  std::string grid;       // runs that differ in layout only
  double key = 0;         // of a grid's runs, those of equal key do not anchor each other

  [[nodiscard]] double log_left_out() const { return log_error - log_factor; }
};

// |forecast / measured - 1| from log(measured / forecast).
[[nodiscard]] double relative_error(double log_ratio);

// The factor for runs of `cluster` and `stack`: the median over the other groups of their median
// log ratio, each group one voice, drawn towards 0 as by two groups that need none. 0 where there
// is no other group.
[[nodiscard]] double level_of_others(std::span<const Judged> all, const std::string& cluster,
                                     const std::string& stack);
void learn_levels(std::vector<Judged>& all);

// Which run may anchor which.
using MayAnchor = std::function<bool(const Judged& anchor, const Judged& other)>;

// The errors that are left when one run sets the scale, one list for each run that can.
[[nodiscard]] std::vector<std::vector<double>> anchored_log_errors(std::span<const Judged> rows,
                                                                   const MayAnchor& may_anchor);

// Of each list the statistic of |error|; of those the median. Precondition: not empty.
using Statistic = std::function<double(std::vector<double>)>;
[[nodiscard]] double over_anchors(const std::vector<std::vector<double>>& log_errors,
                                  const Statistic& statistic);

[[nodiscard]] double quantile(std::vector<double> values, double level);  // of sorted, the nearest
[[nodiscard]] double largest(std::vector<double> values);
[[nodiscard]] double mean(std::vector<double> values);

// Kendall's tau over pairs of one grid whose measured values differ by more than `apart`: agreeing
// less disagreeing pairs over all of them. `pairs` counts them.
struct OrderedPairs {
  int agreeing = 0, pairs = 0;
  [[nodiscard]] double tau() const { return pairs == 0 ? 0 : 2.0 * agreeing / pairs - 1; }
};
struct MeasuredAndForecast {
  double measured = 0, forecast = 0;
};
[[nodiscard]] OrderedPairs ordered_pairs(std::span<const MeasuredAndForecast> rows, double apart);

// By how much the row that is forecast least is measured above the least measured.
[[nodiscard]] double regret(std::span<const MeasuredAndForecast> rows);

// Which place, from 1, the row that is measured least takes among the forecasts. What an anchor
// does to a grid, which it scales, leaves it.
[[nodiscard]] int place_of_best(std::span<const MeasuredAndForecast> rows);

}  // namespace weir
