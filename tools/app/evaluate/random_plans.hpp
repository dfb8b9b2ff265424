// Random plans of one mini-batch, for an evaluation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "costmodel/table/costs.hpp"
#include "plan/job/cluster.hpp"
#include "plan/job/plan.hpp"
#include "plan/model/model.hpp"

namespace weir::app {

struct RandomPlans {
  std::vector<int> stages;  // the K to draw from
  int global_batch_size = 1;
  bool rematerialised = true;  // PyTorch's runtime has no R of its own
  int spanning = 0;            // of the first so many, one of each micro-batch size, extremes first
  std::uint64_t seed = 0;
};

// `count` different ones: K, M, micro-batch size, partition (a boundary or two moved from the
// best), schedule and re-materialisation; all else is `base`'s. Throws UsageError where there are
// fewer.
[[nodiscard]] std::vector<Plan> random_plans(const RandomPlans& drawn, int count, const Plan& base,
                                             const Model& model, const Costs& costs,
                                             const Cluster& cluster);

}  // namespace weir::app
