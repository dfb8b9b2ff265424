// What a plan by hand leaves to the planner: where stages begin, what is re-materialised, and in
// which order actions run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "costmodel/table/costs.hpp"
#include "costmodel/table/layer_costs.hpp"
#include "plan/job/cluster.hpp"
#include "plan/job/plan.hpp"
#include "plan/model/model.hpp"
#include "plan/schedule/schedule.hpp"
#include "plan/words/units.hpp"

namespace weir::app {

// The words of --partition.
[[nodiscard]] std::vector<std::string> partition_words();

struct PlanChooser {
  const Model& model;
  const Costs& costs;
  const Cluster& cluster;
  std::optional<Bytes> memory_limit;  // none: the device's
  std::vector<std::string>& remarks;  // a line each: how good what was chosen is

  // First layers of stages 1... by a word of --partition; with more stages than layers, where the
  // stack leaves stages empty, its own rule's. `bounded`: within the devices' memory where the word
  // knows of it.
  [[nodiscard]] std::vector<int> boundaries(const std::string& word, const Plan& plan,
                                            const Schedule& schedule, bool bounded) const;
  // --schedule auto: for one or two stages a rank, in a loop and in a V. Where the plan has no
  // boundaries, those of each placement by `partition`; the plan gets them with the schedule.
  // `rebuild`: what does not fit may be re-materialised. Throws NoFeasiblePlan, UsageError.
  [[nodiscard]] Schedule schedule(const std::string& partition, bool rebuild, Plan& plan) const;
  // --recompute auto, for the plan's boundaries.
  [[nodiscard]] Recompute recompute(const Plan& plan, const Schedule& schedule) const;

 private:
  // Of no more stages than layers.
  [[nodiscard]] std::vector<int> by_word(const std::string& word, const Plan& plan,
                                         const Schedule& schedule, const LayerCosts& known,
                                         const Cluster& machine) const;
};

}  // namespace weir::app
