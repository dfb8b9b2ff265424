// Finds the layers' times and the messages across each boundary, and asks for the partition.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/balance.hpp"

#include "costmodel/links/parallel.hpp"
#include "costmodel/table/stage_costs.hpp"
#include "sim/partition.hpp"

namespace weir {

std::vector<std::int64_t> layer_times(const Plan& plan, const LayerCosts& known,
                                      const Cluster& cluster) {
  const auto layers = static_cast<int>(known.model().layers.size());
  Plan single = plan;  // every layer a stage of its own: none is alone on the machine
  single.pp = layers;
  const StageCosts costs(single, known, cluster);
  std::vector<std::int64_t> times;
  for (int l = 0; l < layers; ++l) {
    const StageCost cost = costs.of({.layers = {l, l + 1}});
    times.push_back((cost.f + cost.b).count());
  }
  return times;
}

std::vector<int> Balance::boundaries(const Plan& plan) {
  auto& times = times_[plan.micro_batch_size];
  if (times.empty()) times = layer_times(plan, known_, cluster_);
  CutTimes cuts;
  for (int s = 1; s < plan.stages(); ++s) {
    const Rank from{(s - 1) % plan.pp}, to{s % plan.pp};
    const Link link = stage_link(known_.costs(), plan, cluster_, from, to);
    std::vector<std::int64_t> before{0};  // each layer; before the first nothing crosses
    for (std::size_t l = 0; l + 1 < times.size(); ++l) {
      const Bytes bytes(known_.part()->layers[l].crossing_bytes * plan.micro_batch_size);
      before.push_back(from == to ? 0
                                  : stage_message(bytes, plan, link, cluster_).occupancy.count());
    }
    cuts.push_back(std::move(before));
  }
  return best_boundaries(times, plan.stages(), cuts);
}

std::vector<int> balanced_boundaries(const Model& model, const Plan& plan, const Costs& costs,
                                     const Cluster& cluster) {
  const LayerCosts known(plan, model, costs, cluster.stack);
  return Balance(known, cluster).boundaries(plan);
}

}  // namespace weir
