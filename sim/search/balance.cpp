// Finds the layers' times and the messages across each boundary, and asks for the partition.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/balance.hpp"

#include "costmodel/links/parallel.hpp"
#include "sim/partition.hpp"
#include "sim/search/sweep.hpp"

namespace weir {

Balance::Balance(const Model& model, const Plan& base, const Costs& costs, const Cluster& cluster)
    : model_(model),
      part_(std::make_shared<const ModelPart>(
          model_part(model, base.seq_length, base.dtype, base.split()))),
      costs_(costs),
      cluster_(cluster),
      crossing_(1, Bytes(0)) {
  for (int l = 0; l + 1 < static_cast<int>(model.layers.size()); ++l)
    crossing_.push_back(Bytes(part_->layer(l).crossing_bytes));
}

std::vector<int> Balance::boundaries(const Plan& plan) {
  auto& times = times_[plan.micro_batch_size];
  if (times.empty()) times = layer_times(model_, plan, costs_, cluster_, part_);
  CutTimes cuts;
  for (int s = 1; s < plan.stages(); ++s) {
    const Rank from{(s - 1) % plan.pp}, to{s % plan.pp};
    const Link link = stage_link(costs_, plan, cluster_, from, to);
    std::vector<std::int64_t> of_layers;
    for (const Bytes sample : crossing_) {
      const Bytes bytes = sample * std::int64_t{plan.micro_batch_size};
      of_layers.push_back(
          from == to ? 0 : stage_message(bytes, plan, link, cluster_).occupancy.count());
    }
    cuts.push_back(std::move(of_layers));
  }
  return best_boundaries(times, plan.stages(), cuts);
}

std::vector<int> balanced_boundaries(const Model& model, const Plan& plan, const Costs& costs,
                                     const Cluster& cluster) {
  return Balance(model, plan, costs, cluster).boundaries(plan);
}

}  // namespace weir
