// What a sweep must keep to, whoever asked for it, and what is said when nothing does.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "plan/job/cluster.hpp"
#include "sim/search/sweep.hpp"

namespace weir {

struct SweepLimits {
  std::string memory;                            // "80 GiB"; empty: the device's memory
  std::optional<std::filesystem::path> cluster;  // a named cluster has so many devices and no more
};

// Throws UsageError (no mini-batch and no M) and NoFeasiblePlan (every K is above the cluster's
// devices).
void set_limits(SweepRequest& request, const SweepLimits& limits, const Cluster& cluster);

// Throws NoFeasiblePlan where there is none, with the plan that needs least memory.
void require_feasible(const SweepResult& result, const SweepRequest& request);

}  // namespace weir
