// How many gathered buffers wait, by how far the host is ahead of the device.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/memory/pending.hpp"

#include <algorithm>

namespace weir {
namespace {

// All four were read from 971 measured peaks of nanotron's, their errors in view (docs/theory.md
// 7.4). The device's time of a pass over the host's: up to the first the host is not ahead by the
// end of a forward, from the second on it is as far ahead as a stream's queue is long.
constexpr double kLevel = 0.7, kFarAhead = 1.3;
// Of the lead, where no backward comes before a rank's last forward: the host started level.
constexpr double kFromTheStart = 0.5;
// Micro-batches in flight that the next one's messages wait for.
constexpr std::int32_t kWaitedFor = 2;

// Blocks of the rank's stages, of one of its stages on average.
double blocks_of_stage(const ResolvedPlan& loaded, Rank rank) {
  const ScheduleShape& shape = loaded.schedule.shape;
  int blocks = 0, stages = 0;
  for (std::int32_t s = 0; s < shape.total_stages(); ++s) {
    if (shape.rank_of(Stage{s}) != rank || shape.is_shard(Stage{s})) continue;
    ++stages;
    const LayerRange range = loaded.stage(Stage{s}).layers;
    for (int l = range.first; l < range.last; ++l) {
      const Layer& layer = loaded.model.layers[static_cast<std::size_t>(l)];
      blocks += std::holds_alternative<TransformerShape>(layer.shape) ? 1 : 0;
    }
  }
  return stages == 0 ? 0 : 1.0 * blocks / stages;
}

}  // namespace

std::int64_t gathered_bytes(const Plan& plan, const Model& model) {
  if (plan.tp == 1) return 0;
  std::int64_t hidden = 0;
  for (const Layer& layer : model.layers) {
    if (const auto* block = std::get_if<TransformerShape>(&layer.shape))
      hidden = std::max(hidden, block->hidden);
  }
  return plan.split().tokens(plan.seq_length) * plan.micro_batch_size * hidden *
         bytes_per_element(plan.dtype);
}

double pending_buffers(const ResolvedPlan& loaded, Rank rank, std::int32_t in_flight,
                       const MemoryRules& rules) {
  const StackMemory& m = rules.stack.memory;
  const Plan& plan = loaded.plan;
  if (plan.tp == 1) return 0;
  // From level with the device to far ahead of it, in proportion.
  double ahead = std::clamp((rules.device_over_host - kLevel) / (kFarAhead - kLevel), 0.0, 1.0);
  if (in_flight >= plan.microbatches * plan.slices) ahead *= kFromTheStart;
  double buffers = m.pending_least + m.pending * ahead;
  // A block's forward gathers twice, before attention and before the MLP.
  const bool few_nodes = plan.tp <= m.pending_nodes * rules.devices_per_node;
  if (few_nodes) {
    buffers += 2 * blocks_of_stage(loaded, rank) * std::max(0, in_flight - kWaitedFor);
  }
  // The host never runs further ahead than this.
  return std::min(buffers, m.pending);
}

}  // namespace weir
