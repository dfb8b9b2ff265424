// Bytes of stages times micro-batches in flight.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/memory_bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "costmodel/memory/memory_rules.hpp"
#include "costmodel/memory/stage_memory.hpp"
#include "plan/job/recompute.hpp"

namespace weir {
namespace {

// Whether two stages that follow each other in the model are of as many layers, all of them alike:
// then one holds what the other does.
bool held_alike(const Plan& plan, const LayerCosts& known, const StagePart& a, const StagePart& b) {
  const bool follows = a.layers.last == b.layers.first && a.layers.first < b.layers.first;
  if (!follows || a.layers.size() != b.layers.size() || a.input_bytes != b.input_bytes ||
      a.output_bytes != b.output_bytes) {
    return false;
  }
  const ModelPart& part = *known.part();
  const auto again = [&](int l) { return rebuilds(plan.recompute, part.layer(l), l); };
  for (int l = a.layers.first + 1; l < b.layers.last; ++l) {
    if (!known.held_like_the_last(l) || again(l) != again(l - 1)) return false;
  }
  return true;
}

}  // namespace

std::int64_t all_held(const Plan& plan, const ModelPart& part, const Cluster& cluster) {
  const StageMemory all(plan, part, stage_parts(part, {}, looped_shape(1, 1, 1)).front(),
                        cluster.device.allocator, cluster.stack);
  // What goes by the number of parameters is rounded once here, and for each stage there.
  const std::int64_t rounding = (std::int64_t{4} << 20) + 2 * std::ssize(part.layers);
  return std::max<std::int64_t>(0, total_bytes(all.parameters()) - rounding);
}

Bytes DeviceShare::of(std::int64_t tensors) const {
  const double kept = std::floor(static_cast<double>(tensors) * reserved);
  return Bytes(std::llround((process + kept) * factor));
}

DeviceShare device_share(const Costs& costs, const Cluster& cluster) {
  // The lesser of the stack's shares, and no less than the tensors, for a bound must not be above a
  // forecast.
  const StackMemory& memory = cluster.stack.memory;
  return {static_cast<double>(process_overhead(cluster).count()),
          std::max(1.0, std::min(memory.reserved_expected, memory.reserved_most)),
          costs.factors().memory};
}

std::vector<StageHeld> stages_held(const Plan& plan, const LayerCosts& known,
                                   std::span<const StagePart> stages, const Cluster& cluster) {
  const RecomputeMode mode = plan.recompute.mode;
  const bool remat = mode == RecomputeMode::full || mode == RecomputeMode::stage;
  std::vector<StageHeld> held;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    if (s > 0 && held_alike(plan, known, stages[s - 1], stages[s])) {
      held.push_back(StageHeld(held.back()));
      continue;
    }
    const StageMemory memory(plan, *known.part(), stages[s], cluster.device.allocator,
                             cluster.stack);
    const Footprint f = memory.of(ActionKind::F, remat), i = memory.of(ActionKind::I, remat);
    // After F its output is sent; after I the input's gradient is, and the output's has come.
    const std::int64_t after_f = memory.input_bytes() + total_bytes(f.net) - memory.output_bytes();
    const std::int64_t after_i = total_bytes(f.net) + total_bytes(i.net);
    // The least that a micro-batch holds while it waits: with a split backward that may be after I.
    held.push_back({.always = total_bytes(memory.parameters()) - memory.gradients_to_come(),
                    .kept = std::max<std::int64_t>(0, after_f),
                    .kept_split = std::max<std::int64_t>(0, std::min(after_f, after_i)),
                    .forward = memory.input_bytes() + total_bytes(f.worst)});
  }
  return held;
}

Bytes memory_bound(std::span<const StageHeld> stages, const ShapeFacts& facts,
                   const DeviceShare& device) {
  const ScheduleShape& shape = facts.shape;
  constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  struct RankHeld {
    std::int64_t always = 0, kept = kNone, forward = kNone;
  };
  std::vector<RankHeld> ranks(static_cast<std::size_t>(shape.ranks));
  for (std::int32_t s = 0; s < shape.total_stages(); ++s) {
    const StageHeld& stage = stages[static_cast<std::size_t>(s)];
    RankHeld& rank = ranks[shape.rank_of(Stage{s}).position()];
    rank.always += stage.always;
    // Which of its stages a rank's micro-batches are at is not known: the least of each.
    rank.kept = std::min(rank.kept, facts.splits_backward ? stage.kept_split : stage.kept);
    rank.forward = std::min(rank.forward, stage.forward);
  }
  std::int64_t fullest = 0;
  for (std::size_t k = 0; k < ranks.size(); ++k) {
    std::int64_t bytes = ranks[k].always;
    const std::int64_t most = facts.in_flight[k];
    // One micro-batch is in its F, and the others wait.
    if (most > 0) bytes += (most - 1) * ranks[k].kept + ranks[k].forward;
    fullest = std::max(fullest, bytes);
  }
  return device.of(fullest);
}

}  // namespace weir
