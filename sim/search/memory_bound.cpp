// Bytes of stages times micro-batches in flight.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/memory_bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "costmodel/memory/memory_rules.hpp"
#include "costmodel/memory/stage_memory.hpp"
#include "plan/job/recompute.hpp"
#include "plan/words/indexed.hpp"

namespace weir {
namespace {

// By layer, the first of those before it that all hold what it holds.
std::vector<int> first_alike(const Plan& plan, const LayerCosts& known) {
  const ModelPart& part = *known.part();
  const auto again = [&](int l) { return rebuilds(plan.recompute, part.layer(l), l); };
  std::vector<int> first;
  first.reserve(at(part.size()));
  for (int l = 0; l < part.size(); ++l) {
    const bool alike = l > 0 && known.held_like_the_last(l) && again(l) == again(l - 1);
    first.push_back(alike ? first.back() : l);
  }
  return first;
}

}  // namespace

std::int64_t all_held(const Plan& plan, const ModelPart& part, const Cluster& cluster) {
  const StageMemory all(plan, part, stage_parts(part, {}, looped_shape(1, 1, 1)).front(),
                        cluster.device.allocator, cluster.stack);
  // What goes by the number of parameters is rounded once here, and for each stage there.
  const std::int64_t rounding = (std::int64_t{4} << 20) + 2 * part.size();
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

namespace {

StageHeld held_by(const Plan& plan, const LayerCosts& known, const StagePart& stage,
                  const Cluster& cluster) {
  const RecomputeMode mode = plan.recompute.mode;
  const bool remat = mode == RecomputeMode::full || mode == RecomputeMode::stage;
  const StageMemory memory(plan, *known.part(), stage, cluster.device.allocator, cluster.stack);
  const Footprint f = memory.of(ActionKind::F, remat), i = memory.of(ActionKind::I, remat);
  // After F its output is sent; after I the input's gradient is, and the output's has come.
  const std::int64_t after_f = memory.input_bytes() + total_bytes(f.net) - memory.output_bytes();
  const std::int64_t after_i = total_bytes(f.net) + total_bytes(i.net);
  // The least that a micro-batch holds while it waits: with a split backward that may be after I.
  return {.always = total_bytes(memory.parameters()) - memory.gradients_to_come(),
          .kept = std::max<std::int64_t>(0, after_f),
          .kept_split = std::max<std::int64_t>(0, std::min(after_f, after_i)),
          .forward = memory.input_bytes() + total_bytes(f.worst)};
}

}  // namespace

std::vector<StageHeld> stages_held(const Plan& plan, const LayerCosts& known,
                                   std::span<const StagePart> stages, const Cluster& cluster) {
  // What stages of as many layers hold, where these are alike: of a deep model most are.
  using Layers = std::tuple<int, int, std::int64_t, std::int64_t>;
  std::map<Layers, StageHeld> of_alike;
  const std::vector<int> first = first_alike(plan, known);
  std::vector<StageHeld> held;
  held.reserve(stages.size());
  for (const StagePart& stage : stages) {
    const auto& [begin, end] = stage.layers;
    const bool alike = begin < end && first[at(end - 1)] <= begin;
    const Layers layers{alike ? first[at(begin)] : 0, stage.layers.size(), stage.input_bytes,
                        stage.output_bytes};
    const auto same = alike ? of_alike.find(layers) : of_alike.end();
    held.push_back(same != of_alike.end() ? same->second : held_by(plan, known, stage, cluster));
    if (alike) of_alike.try_emplace(layers, held.back());
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
    // What a shard has between its passes is none of those in flight.
    if (shape.is_shard(Stage{s})) continue;
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
