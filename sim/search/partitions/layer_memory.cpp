// Looks at every layer as a stage of its own.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/partitions/layer_memory.hpp"

#include <algorithm>
#include <utility>

#include "costmodel/memory/memory_rules.hpp"
#include "costmodel/memory/stage_memory.hpp"

namespace weir {

PartitionMemory layer_memory(const Plan& plan, const LayerCosts& known, const Cluster& cluster) {
  const ModelPart& part = *known.part();
  const int layers = part.size();
  PartitionMemory memory;
  const bool remat =
      plan.recompute.mode == RecomputeMode::full || plan.recompute.mode == RecomputeMode::stage;
  const auto again = [&](int l) { return rebuilds(plan.recompute, part.layer(l), l); };
  const std::int64_t longest_chunk =
      std::min<std::int64_t>(plan.recompute.at_a_time, ceil_div(layers, plan.stages()));
  std::int64_t beside = 0, message = 0;
  StagePart single;
  for (int l = 0; l < layers; ++l) {
    const std::pair before{single.input_bytes, single.output_bytes};
    single.layers = {l, l + 1};
    single.parameters = part.layer(l).parameters;
    single.trained_parameters = part.layer(l).trained_parameters;
    single.input_bytes = std::exchange(single.output_bytes, part.layer(l).crossing_bytes);
    // Layers of a model are of few kinds.
    if (known.held_like_the_last(l) && again(l) == again(l - 1) &&
        before == std::pair{single.input_bytes, single.output_bytes}) {
      memory.held.push_back(std::int64_t{memory.held.back()});
      memory.kept.push_back(std::int64_t{memory.kept.back()});
      continue;
    }
    const StageMemory stage(plan, part, single, cluster.device.allocator, cluster.stack);
    memory.held.push_back(total_bytes(stage.parameters()));
    // The input came in a slot, and the output leaves with its message.
    const Footprint forward = stage.of(ActionKind::F, remat);
    const std::int64_t kept = total_bytes(forward.net) + stage.input_bytes() - stage.output_bytes();
    // Of a chunk one input, on average, and all tensors at once; the forecast knows where it
    // begins.
    const std::int64_t chunk = again(l) ? longest_chunk : 1;
    memory.kept.push_back(std::max<std::int64_t>(0, kept / chunk));
    beside = std::max({beside, total_bytes(forward.worst) - kept,
                       chunk * total_bytes(stage.of(ActionKind::B, remat).worst)});
    message = std::max(message, stage.input_bytes());
  }
  // Where slots are unlimited, as many as plans have by default.
  const std::int64_t slots = plan.slots == 0 ? 2 : plan.slots;
  const Bytes process = memory_rules(cluster, part).process_overhead;
  for (const Bytes limit : rank_limits(plan, cluster, cluster.largest_memory()))
    // The largest layer's, whichever rank gets it.
    memory.capacity.push_back((limit - process).count() - beside - 2 * slots * message);
  return memory;
}

}  // namespace weir
