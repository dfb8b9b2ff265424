// A run recorded by the PyTorch profiler, as a traced plan.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "costmodel/fit/calibrate.hpp"
#include "costmodel/table/costs.hpp"
#include "tools/app/shared/source.hpp"

namespace weir::app {

struct KinetoOptions {
  PlanSource plan;                                  // what ran; its file has a name where one did
  std::optional<std::filesystem::path> save_trace;  // where to keep what was measured
};

// Reads the files of all ranks, notes what was found in them, and keeps the trace where asked to.
// Throws InputError (see read_kineto). Precondition: the plan is given.
[[nodiscard]] PlannedTrace load_kineto_run(const KinetoOptions& options,
                                           const std::vector<std::filesystem::path>& files,
                                           const Session& session);

// Throws InputError where the run was recorded on another device than the cluster's: its times
// would be taken for errors of the costs.
void require_recorded_on(const Device& device, const PlannedTrace& run);

// Puts into `costs` the link that the run's transfers show, and notes so.
void fit_link_of_run(const PlannedTrace& run, Costs& costs, const Session& session);

}  // namespace weir::app
