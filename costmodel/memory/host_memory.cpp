// Adds up what each rank's device keeps with its host, then the devices of each node.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/memory/host_memory.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "costmodel/links/offload.hpp"
#include "plan/job/placement.hpp"
#include "plan/job/recompute.hpp"

namespace weir {
namespace {

// Of a micro-batch, all blocks of a stage.
std::int64_t offloaded_of(const ResolvedPlan& loaded, const ModelPart& part, Stage stage) {
  const Plan& plan = loaded.plan;
  const LayerRange layers = loaded.stage(stage).layers;
  std::int64_t bytes = 0;
  for (int l = layers.first; l < layers.last; ++l) {
    const LayerPart& layer = part.layer(l);
    bytes += offloaded_bytes(layer, plan, rebuilds(plan.recompute, layer, l));
  }
  return bytes;
}

// By rank, of one of its devices.
std::vector<std::int64_t> activations(const ResolvedPlan& loaded, const ModelPart& part) {
  const ScheduleShape& shape = loaded.schedule.shape;
  std::vector<std::int64_t> most(static_cast<std::size_t>(shape.ranks), 0);
  if (loaded.plan.offload_activations == 0) return most;
  std::vector<std::int64_t> of_stage;
  for (std::int32_t s = 0; s < shape.total_stages(); ++s)
    of_stage.push_back(offloaded_of(loaded, part, Stage{s}));
  for (std::int32_t r = 0; r < shape.ranks; ++r) {
    std::int64_t now = 0;
    for (const Action& action : loaded.schedule.order[Rank{r}]) {
      const std::int64_t bytes = of_stage[static_cast<std::size_t>(action.stage.value)];
      if (action.kind == ActionKind::F) now += bytes;
      if (is_backward(action.kind)) now -= bytes;
      std::int64_t& peak = most[static_cast<std::size_t>(r)];
      peak = std::max(peak, now);
    }
  }
  return most;
}

// By rank, the numbers whose state the host keeps for one of its devices.
std::vector<double> numbers(const ResolvedPlan& loaded, const ModelPart& part) {
  const ScheduleShape& shape = loaded.schedule.shape;
  std::vector<double> all(static_cast<std::size_t>(shape.ranks), 0);
  if (loaded.plan.offload_optimizer == 0) return all;
  std::vector<std::vector<LayerRange>> held(all.size());
  for (std::int32_t s = 0; s < shape.total_stages(); ++s) {
    const StagePart& stage = loaded.stage(Stage{s});
    std::vector<LayerRange>& its = held[shape.rank_of(Stage{s}).position()];
    // What the rank's stages repeat between them, this one's own among it.
    const std::int64_t before = repeated_numbers(part, its);
    its.push_back(stage.layers);
    const std::int64_t repeated = repeated_numbers(part, its) - before;
    all[shape.rank_of(Stage{s}).position()] += offloaded_numbers(stage, loaded.plan, repeated);
  }
  return all;
}

double share(const HostHeld& host) {
  return static_cast<double>(host.held().count()) / static_cast<double>(host.memory.count());
}

}  // namespace

std::optional<HostHeld> fullest_host(const ResolvedPlan& loaded, const ModelPart& part,
                                     const Cluster& cluster) {
  const Plan& plan = loaded.plan;
  if (plan.offload_optimizer == 0 && plan.offload_activations == 0) return std::nullopt;
  const std::vector<std::int64_t> kept = activations(loaded, part);
  const std::vector<double> updated = numbers(loaded, part);
  std::optional<HostHeld> fullest;
  for (const PlacedNode& node : Placement(plan, cluster).nodes(plan)) {
    double state = 0;
    std::int64_t waiting = 0;
    for (const Rank rank : node.ranks) {
      state += updated[rank.position()];
      waiting += kept[rank.position()];
    }
    const HostHeld its{host_bytes(state, plan.optimizer), Bytes(waiting),
                       cluster.kind(node.kind).host.value().memory};
    if (!fullest || share(its) > share(*fullest)) fullest = its;
  }
  return fullest;
}

}  // namespace weir
