// Plans put to the test: each with its first forecast, run several times interleaved with the
// others, so that a slow minute of the machine falls on all of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "exec/run/run.hpp"
#include "sim/forecast/forecast.hpp"
#include "tools/app/evaluate/unfinished.hpp"
#include "tools/app/machine/watch.hpp"

namespace weir {

struct Trial {
  ResolvedPlan plan;
  ForecastResult first;                    // before it was run
  RunResult run;                           // the first run, with the traces of all of them
  std::vector<double> times;               // of every measured step, seconds
  [[nodiscard]] Seconds measured() const;  // their median
  [[nodiscard]] Bytes measured_peak() const;
};

struct TrialOptions {
  const app::Unfinished& unfinished;  // where each run is kept when it is measured
  std::string title;                  // of these trials there: "held-out"
  BackendKind backend = BackendKind::cpu;
  int rounds = 3;          // each plan is run so often
  int steps = 2;           // measured steps of a run, after its warm-up
  std::uint64_t seed = 0;  // 0: in the order given; otherwise each round in a random order
  std::optional<std::filesystem::path> data;
  std::function<void(int done, int of)> progress;
};

// Steps of a run before those that count. A GPU has rested while the weights were made, and its
// clock takes some steps to come up again.
[[nodiscard]] int warm_up_steps(BackendKind backend);

// One run of the trial at `index`, by the name under which it is kept: "held-out-3-round-1".
struct TrialRun {
  std::size_t index = 0;
  std::string name;
};

// All runs of so many trials in the order in which they are made: rounds, each in a random order
// of its own where there is a seed.
[[nodiscard]] std::vector<TrialRun> runs_in_order(std::size_t trials, const TrialOptions& options);

[[nodiscard]] Trial make_trial(const Plan& plan, const Costs& costs, const Cluster& cluster);
// Adds a run's measured steps, which are those of its trace.
void add_run(RunResult run, Trial& trial);
// Those that are kept already are not run again.
void run_trials(std::vector<Trial>& trials, const TrialOptions& options, const Backends& backends);

// What disturbed the profile and, since `watch` began, the runs by it: the worse of the two.
[[nodiscard]] Disturbance disturbance_of(const Costs& profile, const std::vector<Trial>& trials,
                                         const app::Watch& watch);

}  // namespace weir
