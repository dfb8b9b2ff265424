// Which plans a tuning runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "costmodel/table/costs.hpp"
#include "exec/device/backend.hpp"
#include "plan/job/resolve.hpp"
#include "sim/search/result.hpp"
#include "sim/search/sweep.hpp"
#include "tools/app/evaluate/tune_request.hpp"

namespace weir::app {

// What all steps of the loop know.
struct TuneLoop {
  const TuneRequest& request;
  BackendKind backend;
  int devices;  // most ranks
  Cluster host;
  Model model;
  Plan base;
  std::optional<ResolvedPlan> baseline = {};  // as it was given, for files in "."
};

// What is searched: every schedule and number of stages a rank, of the job's mini-batch.
[[nodiscard]] weir::SweepRequest sweep_request(const TuneLoop& loop);
// All plans that fit, by their forecasts from the profile. Throws NoFeasiblePlan where none does.
[[nodiscard]] SweepResult ranking(const TuneLoop& loop, const Costs& profile);

struct Chosen {
  std::vector<Plan> plans;
  std::size_t baseline = 0;  // which of them all are compared with
};
// The fastest feasible plans that differ in more than where their micro-batches end, the plain
// K = 1, and the plan in use.
[[nodiscard]] Chosen choose(const TuneLoop& loop, const SweepResult& swept);

}  // namespace weir::app
