// Plans profiled and run by the user's own PyTorch: a Python that has it and the package `weir` is
// started, and what it measured becomes costs and traces like those of Weir's executor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "costmodel/table/costs.hpp"
#include "tools/app/evaluate/trial.hpp"

namespace weir::app {

struct TorchPython {
  std::string interpreter;       // "python3"
  std::filesystem::path folder;  // for the exported plans and what is measured, gone on from
};

// Costs by `python -m weir.profile_torch`. Throws MissingComponent where the Python lacks PyTorch,
// transformers or the package, InputError where it refuses the model, RunFailed where it stops.
[[nodiscard]] Costs profile_by_torch(const TorchPython& python, const Plan& plan,
                                     const std::vector<int>& micro_batch_sizes, int ranks);

// As run_trials() does with Weir's executor: the runs that python.folder does not have yet are made
// by one job, each with a file there as soon as it is measured. Throws RunFailed where the job does
// not end as it should. Messages are not timed: they are put where the forecast's would end, or
// where their consumer began. Peak memory is known of GPUs alone.
void run_trials_by_torch(const TorchPython& python, std::vector<Trial>& trials,
                         const TrialOptions& options);

}  // namespace weir::app
