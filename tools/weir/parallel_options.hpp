// Options for parallel degrees, which several commands share: --tp, --cp, --dp and what goes with
// them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "plan/job/cluster.hpp"
#include "plan/job/plan.hpp"

namespace CLI {
class App;
}

namespace weir {

struct SweepRequest;

// One plan's degrees; what was not given leaves the plan as it is.
struct ParallelOptions {
  std::optional<int> tp, cp, dp, zero;
  int ep = 1;
  bool sequence_parallel = false, overlap_grad_reduce = false;
};
void add_parallel_options(CLI::App& command, ParallelOptions& options);
// Throws UsageError on a contradiction, MissingComponent for expert parallelism.
void apply(const ParallelOptions& options, Plan& plan);

// The same as lists for a sweep.
struct ParallelLists {
  std::string tp = "1", cp = "1", dp = "1", zero = "0";
  int ep = 1;
  bool sequence_parallel = false, overlap_grad_reduce = false;
};
void add_parallel_lists(CLI::App& command, ParallelLists& lists);
void apply(const ParallelLists& lists, SweepRequest& request);

// A named cluster has so many devices and no more; throws NoFeasiblePlan.
void require_devices(const Plan& plan, const Cluster& cluster, const std::filesystem::path& file);

}  // namespace weir
