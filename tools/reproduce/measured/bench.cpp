// Forecasts runs and lays out what is judged of them.
// SPDX-License-Identifier: Apache-2.0
#include "tools/reproduce/measured/bench.hpp"

#include <cmath>

namespace weir {
namespace {

Judged judged(const MeasuredRun& run, std::size_t place) {
  Judged one;
  one.run = place;
  one.cluster = run.cluster.name;
  one.stack = run.cluster.stack.name;
  one.grid = run.grid;
  return one;
}

}  // namespace

std::vector<Judged> picked(const Bench& bench, const std::vector<Judged>& all, const Picks& picks) {
  std::vector<Judged> some;
  for (const Judged& one : all) {
    if (picks(bench.run(one))) some.push_back(one);
  }
  return some;
}

Picks from(std::string_view source) {
  return [source](const MeasuredRun& run) { return run.source == source; };
}

Bench bench_of(const std::vector<MeasuredRun>& runs, const ForecastProgress& progress) {
  // Forecast once, by what is shipped; everything below reads it.
  Bench bench{runs, forecast_runs(runs, progress), {}, {}};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunForecast& shipped = bench.forecasts[i];
    const MeasuredRun& run = runs[i];
    // What cannot be forecast is told with its reason, and judged by nobody.
    if (!shipped.refusal.empty()) continue;
    // An unhealthy run shows the machine, not the plan.
    if (run.step && run.unhealthy.empty()) {
      Judged one = judged(run, i);
      one.log_error = std::log(run.step->seconds() / shipped.step.count());
      bench.times.push_back(std::move(one));
    }
    if (run.memory_gib) {
      Judged one = judged(run, i);
      one.log_error = std::log(run.memory_gib->value / shipped.memory_gib);
      bench.memories.push_back(std::move(one));
    }
  }
  // Levels last: a group's is learnt on the others.
  learn_levels(bench.times);
  learn_levels(bench.memories);
  return bench;
}

std::vector<double> errors_of(const std::vector<Judged>& rows, bool left_out) {
  std::vector<double> errors;
  for (const Judged& one : rows)
    errors.push_back(relative_error(left_out ? one.log_left_out() : one.log_error));
  return errors;
}

bool same_group(const Judged& a, const Judged& b) {
  return a.cluster == b.cluster && a.stack == b.stack;
}

bool same_grid(const Judged& a, const Judged& b) { return !a.grid.empty() && a.grid == b.grid; }

}  // namespace weir
