// Stages as even as the costs of a machine make them: what a plan's partition is where nobody gave
// one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "costmodel/table/stage_costs.hpp"
#include "plan/job/cluster.hpp"
#include "plan/job/plan.hpp"
#include "sim/partition/problem.hpp"
#include "sim/search/partitions/kept_together.hpp"

namespace weir {

// For plans of one model that agree in all but stages, micro-batches and schedule; what depends on
// fewer of them is found once.
class Balance {
 public:
  // The references must outlive it.
  Balance(const LayerCosts& known, const Cluster& cluster)
      : known_(known), cluster_(cluster), together_(known.model(), cluster.stack) {}
  // best_boundaries (sim/partition/balanced) for the plan's stages and micro-batch size; stage s is
  // on rank s mod K, as all schedules but those in a V place it.
  [[nodiscard]] std::vector<int> boundaries(const Plan& plan);

 private:
  const LayerCosts& known_;
  const Cluster& cluster_;
  KeptTogether together_;
  // Of each layer, by micro-batch size and by M where that changes them.
  std::map<std::pair<int, int>, std::vector<std::int64_t>> times_;
};

// The same for one plan.
[[nodiscard]] std::vector<int> balanced_boundaries(const Model& model, const Plan& plan,
                                                   const Costs& costs, const Cluster& cluster);

}  // namespace weir
