// SPDX-License-Identifier: Apache-2.0
#include "tools/app/trial.hpp"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

#include "traces/stats.hpp"

namespace weir {
namespace {

void run_once(Trial& trial, const TrialOptions& o, const Backends& backends) {
  RunOptions options;
  options.backend = o.backend;
  options.steps = o.steps;
  options.warmup_steps = warm_up_steps(o.backend);
  if (o.data) options.data = {*o.data};
  RunResult result = run(trial.plan, options, backends);
  const auto first = static_cast<std::size_t>(options.warmup_steps);
  for (std::size_t s = first; s < result.steps.size(); ++s)
    trial.times.push_back(result.steps[s].time.count());
  if (trial.run.steps.empty()) {
    trial.run = std::move(result);
  } else {
    append(trial.run.trace, result.trace);
  }
}

}  // namespace

Seconds Trial::measured() const { return Seconds(median(times)); }

Bytes Trial::measured_peak() const {
  Bytes most{0};
  for (const Bytes peak : run.peak_memory) most = std::max(most, peak);
  return most;
}

int warm_up_steps(BackendKind backend) { return backend == BackendKind::cuda ? 4 : 1; }

Trial make_trial(const Plan& plan, const Costs& costs, const Cluster& cluster) {
  Trial trial;
  trial.plan = resolve(plan, ".");
  trial.first = forecast(trial.plan, costs, cluster);
  return trial;
}

void run_trials(std::vector<Trial>& trials, const TrialOptions& options, const Backends& backends) {
  std::vector<std::size_t> order(trials.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 random(options.seed);
  const int of = options.rounds * static_cast<int>(trials.size());
  int done = 0;
  for (int round = 0; round < options.rounds; ++round) {
    if (options.seed != 0) std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t i : order) {
      run_once(trials[i], options, backends);
      if (options.progress) options.progress(++done, of);
    }
  }
}

}  // namespace weir
