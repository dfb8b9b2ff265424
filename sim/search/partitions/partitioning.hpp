// The partition of a plan's layers: the shortest simulated step of all candidates that
// sim/partition finds, with the schedule, the devices and their memory as they are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "costmodel/table/layer_costs.hpp"
#include "plan/job/cluster.hpp"
#include "plan/job/resolve.hpp"
#include "sim/partition/minimax.hpp"
#include "sim/partition/problem.hpp"

namespace weir {

// The plan's layers on its ranks, with what crosses each boundary; a straggler is a kind of its
// own. With a device's memory where the cluster says it: each layer's share of what its stage
// holds, of every micro-batch that the stage has in flight when its rank has most, and room for the
// largest layer's backward and for receive slots. A forecast, not this sum, says what a plan really
// takes.
[[nodiscard]] PartitionProblem partition_problem(const Plan& plan, const LayerCosts& known,
                                                 const Cluster& cluster, const Schedule& schedule);

struct ChosenPartition {
  std::vector<int> boundaries;
  std::optional<Nanoseconds> step;  // none: the schedule could not be evaluated
  int simulated = 0;                // partitions
  bool optimal = false;             // none has a shorter step
  double gap = 0;                   // of the step to a bound on every partition's
  bool fits = true;                 // false: no partition keeps to the devices' memory
  MinimaxPartition minimax;         // by the busiest device or link
};

// Of partition_candidates and what a descent makes of the best of them. Optimal where all
// partitions were simulated, or the step meets the bound. Precondition: 1 <= stages <= layers; the
// plan's own boundaries are not read.
[[nodiscard]] ChosenPartition shortest_step_partition(const Plan& plan, const LayerCosts& known,
                                                      const Cluster& cluster,
                                                      const Schedule& schedule);

// "partition: the shortest step of 14 simulated, optimal" or "..., at most 2.1 % above the best".
[[nodiscard]] std::string describe(const ChosenPartition& chosen);
// "partition: the busiest device or link takes 12.3 ms a micro-batch, optimal", or with its gap.
[[nodiscard]] std::string describe(const MinimaxPartition& minimax);

}  // namespace weir
