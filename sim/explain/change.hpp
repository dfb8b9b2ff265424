// A plan with one thing made otherwise, the rest as it is: what an engineer could try next.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "plan/job/cluster.hpp"
#include "plan/job/plan.hpp"

namespace weir {

struct Change {
  std::string choice;              // "schedule"
  std::string to;                  // "zb-h1"
  Plan plan;                       // changed, or as it is where the cluster is what changes
  std::optional<Cluster> cluster;  // with the faster link
  std::string refused;             // why it cannot be; empty: it can
  std::string beyond{};            // what of it the stack has not, and the plan as it is neither
};

}  // namespace weir
