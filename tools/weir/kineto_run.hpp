// A run recorded by the PyTorch profiler, as a traced plan.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "costmodel/table/costs.hpp"
#include "tools/weir/commands.hpp"
#include "tools/weir/traced_plan.hpp"

namespace weir {

struct KinetoOptions {
  std::optional<std::filesystem::path> plan;  // what ran
  std::optional<std::filesystem::path>
      save_trace;  // where to keep what was measured, for `weir compare`
};
void add_kineto_options(CLI::App& command, KinetoOptions& options);

// Reads the files of all ranks, says on stderr what was found in them, and keeps the trace where
// asked to. Throws InputError (see read_kineto). Precondition: options.plan.
[[nodiscard]] TracedPlan load_kineto_run(const KinetoOptions& options,
                                         const std::vector<std::filesystem::path>& files,
                                         const GlobalOptions& global);

// Puts into `costs` the link that the run's transfers show, and says so on stderr.
void fit_link_of_run(const TracedPlan& run, Costs& costs, const GlobalOptions& global);

}  // namespace weir
