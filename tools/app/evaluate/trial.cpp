// Rounds of runs, each kept as soon as it is measured.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/evaluate/trial.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

#include "traces/stats.hpp"

namespace weir {
namespace {

RunResult run_once(const ResolvedPlan& plan, const TrialOptions& o, const Backends& backends) {
  RunOptions options;
  options.backend = o.backend;
  options.steps = o.steps;
  options.warmup_steps = warm_up_steps(o.backend);
  if (o.data) options.data = {*o.data};
  return run(plan, options, backends);
}

}  // namespace

Seconds Trial::measured() const { return Seconds(median(times)); }

Bytes Trial::measured_peak() const {
  Bytes most{0};
  for (const Bytes peak : run.peak_memory) most = std::max(most, peak);
  return most;
}

Disturbance disturbance_of(const Costs& profile, const std::vector<Trial>& trials,
                           const app::Watch& watch) {
  std::vector<std::vector<double>> times;
  times.reserve(trials.size());
  for (const Trial& trial : trials) times.push_back(trial.times);
  Disturbance runs = watch.until_now();
  runs.spread = app::typical_spread(times);
  return worse_of(profile.disturbance.value_or(Disturbance{}), runs);
}

int warm_up_steps(BackendKind backend) { return backend == BackendKind::cuda ? 4 : 1; }

Trial make_trial(const Plan& plan, const Costs& costs, const Cluster& cluster) {
  Trial trial;
  trial.plan = resolve(plan, ".");
  trial.first = forecast(trial.plan, costs, cluster);
  return trial;
}

std::vector<TrialRun> runs_in_order(std::size_t trials, const TrialOptions& options) {
  std::vector<std::size_t> order(trials);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 random(options.seed);
  std::vector<TrialRun> runs;
  for (int round = 0; round < options.rounds; ++round) {
    if (options.seed != 0) std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t i : order)
      runs.push_back({i, fmt::format("{}-{}-round-{}", options.title, i + 1, round + 1)});
  }
  return runs;
}

void add_run(RunResult run, Trial& trial) {
  for (const StepWindow& step : run.trace.steps)
    trial.times.push_back(Seconds(step.end - step.start).count());
  if (trial.run.trace.steps.empty()) {
    trial.run = std::move(run);
  } else {
    append(trial.run.trace, run.trace);
  }
}

void run_trials(std::vector<Trial>& trials, const TrialOptions& options, const Backends& backends) {
  const std::vector<TrialRun> runs = runs_in_order(trials.size(), options);
  int done = 0;
  for (const auto& [index, name] : runs) {
    Trial& trial = trials[index];
    std::optional<RunResult> result = options.unfinished.kept(name, trial.plan);
    if (!result) {
      result = run_once(trial.plan, options, backends);
      options.unfinished.keep(name, trial.plan, *result);
    }
    add_run(std::move(*result), trial);
    if (options.progress) options.progress(++done, static_cast<int>(runs.size()));
  }
}

}  // namespace weir
