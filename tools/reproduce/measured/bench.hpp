// Measured runs with their forecasts, ready to be judged.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "tools/reproduce/measured/judgement.hpp"
#include "tools/reproduce/measured/measured_run.hpp"

namespace weir {

// What judges look at: every healthy time and every memory, and whose run it is.
struct Bench {
  const std::vector<MeasuredRun>& runs;
  std::vector<RunForecast> forecasts;  // as they come
  std::vector<Judged> times, memories;

  [[nodiscard]] const MeasuredRun& run(const Judged& one) const { return runs[one.run]; }
  [[nodiscard]] const Plan& plan(const Judged& one) const { return run(one).plan; }
};
// Forecasts all of `runs`, which the bench refers to.
[[nodiscard]] Bench bench_of(const std::vector<MeasuredRun>& runs,
                             const ForecastProgress& progress = {});

using Picks = std::function<bool(const MeasuredRun&)>;
[[nodiscard]] std::vector<Judged> picked(const Bench& bench, const std::vector<Judged>& all,
                                         const Picks& picks);
[[nodiscard]] Picks from(std::string_view source);

// |forecast / measured - 1| of each.
[[nodiscard]] std::vector<double> errors_of(const std::vector<Judged>& rows, bool left_out);

// Of one cluster and stack; of one grid.
[[nodiscard]] bool same_group(const Judged& a, const Judged& b);
[[nodiscard]] bool same_grid(const Judged& a, const Judged& b);

}  // namespace weir
