// How long each layer of a plan takes, and what crosses each boundary: what partitions are made by.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "costmodel/table/layer_costs.hpp"
#include "plan/job/cluster.hpp"
#include "plan/job/plan.hpp"
#include "sim/partition/problem.hpp"

namespace weir {

// The plan with every layer a stage of its own, its exchanges hidden as they are in the plan.
[[nodiscard]] Plan of_single_layers(const Plan& plan, int layers);

// Time of each layer's F and B for one micro-batch, ns: what partitions are made by. On nodes of
// the cluster's first kind.
[[nodiscard]] std::vector<std::int64_t> layer_times(const Plan& plan, const LayerCosts& known,
                                                    const Cluster& cluster);

// By rank, where ranks stand on several kinds of nodes; else one row for all.
[[nodiscard]] std::vector<std::vector<std::int64_t>> rank_layer_times(const Plan& plan,
                                                                      const LayerCosts& known,
                                                                      const Cluster& cluster);

// cut_ns of sim/partition/problem, with stages on ranks as the shape places them: what crosses a
// boundary is all of it, the layer's output, every skip past it, T5's position bias.
[[nodiscard]] CutTimes crossing_times(const Plan& plan, const LayerCosts& known,
                                      const Cluster& cluster, const ScheduleShape& shape);

}  // namespace weir
