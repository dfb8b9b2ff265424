// Finds the layers' times and the messages across each boundary, and asks for the partition.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/partitions/balance.hpp"

#include <variant>

#include "costmodel/links/expert_overlap.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "sim/partition/balanced.hpp"
#include "sim/search/partitions/layer_times.hpp"
#include "sim/search/partitions/pool_partition.hpp"

namespace weir {

std::vector<int> Balance::boundaries(const Plan& plan) {
  if (cluster_.kinds() > 1) {
    // Which stages stand on the faster nodes is the schedule's to say.
    const auto made =
        make_schedule(plan.schedule, {plan.pp, plan.vpp, plan.microbatches, plan.slices});
    const auto* schedule = std::get_if<Schedule>(&made);
    const ScheduleShape shape =
        schedule != nullptr ? schedule->shape : looped_shape(plan.pp, plan.vpp, plan.microbatches);
    return together_.kept(pool_boundaries(pool_problem(plan, known_, cluster_, shape)));
  }
  // Of micro-batches' number the share of what experts exchange follows that is hidden.
  const bool hides = plan.overlap_experts && !why_experts_wait(plan);
  auto& times = times_[{plan.micro_batch_size, hides ? plan.microbatches : 0}];
  if (times.empty()) times = layer_times(plan, known_, cluster_);
  const ScheduleShape shape = looped_shape(plan.pp, plan.vpp, plan.microbatches);
  return together_.kept(
      best_boundaries(times, plan.stages(), crossing_times(plan, known_, cluster_, shape)));
}

std::vector<int> balanced_boundaries(const Model& model, const Plan& plan, const Costs& costs,
                                     const Cluster& cluster) {
  const LayerCosts known(plan, model, costs, cluster.stack);
  return Balance(known, cluster).boundaries(plan);
}

}  // namespace weir
