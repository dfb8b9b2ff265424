// Prices every layer as a stage of its own.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/partitions/layer_times.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "costmodel/links/expert_overlap.hpp"
#include "costmodel/links/parallel.hpp"
#include "costmodel/table/stage_costs.hpp"
#include "plan/job/placement.hpp"

namespace weir {

Plan of_single_layers(const Plan& plan, int layers) {
  Plan single = plan;
  single.pp = layers;
  single.placement.clear();
  // What exchanges hide behind is the plan's own chunks' to say.
  single.overlap_experts = plan.overlap_experts && !why_experts_wait(plan);
  single.vpp = 2;
  if (single.overlap_experts) single.schedule = "interleaved-1f1b";
  return single;
}

std::vector<std::int64_t> layer_times(const Plan& plan, const LayerCosts& known,
                                      const Cluster& cluster) {
  const int layers = staged_layers(known.model());
  // None is alone on the machine.
  const Plan single = of_single_layers(plan, layers);
  const StageCosts costs(single, known, cluster.kind(0));
  std::vector<std::int64_t> times;
  times.reserve(static_cast<std::size_t>(layers));
  for (const LayerRange& run : known.runs(plan.recompute)) {
    if (run.first >= layers) break;  // of a divided vocabulary, which no stage has
    const StageCost cost = costs.of({.layers = {run.first, run.first + 1}});
    times.insert(times.end(), static_cast<std::size_t>(run.size()), (cost.f + cost.b).count());
  }
  return times;
}

std::vector<std::vector<std::int64_t>> rank_layer_times(const Plan& plan, const LayerCosts& known,
                                                        const Cluster& cluster) {
  if (cluster.kinds() == 1) return {layer_times(plan, known, cluster)};
  std::vector<std::vector<std::int64_t>> of_kinds;
  for (int kind = 0; kind < cluster.kinds(); ++kind)
    of_kinds.push_back(layer_times(plan, known.of_kind(kind), cluster.kind(kind)));
  const Placement placement(plan, cluster);
  std::vector<std::vector<std::int64_t>> rows;
  for (std::int32_t rank = 0; rank < plan.pp; ++rank) {
    std::vector<std::int64_t>& row = rows.emplace_back(of_kinds.front().size(), 0);
    // A rank that stands on several kinds waits for the slowest.
    for (const int kind : placement.kinds(Rank{rank})) {
      for (std::size_t l = 0; l < row.size(); ++l) row[l] = std::max(row[l], of_kinds[at(kind)][l]);
    }
  }
  return rows;
}

namespace {

// Layers that follow each other and send as much: of a model there are few kinds.
struct Crossing {
  std::int64_t bytes = 0;  // behind each
  std::size_t layers = 0;
};

// Of all layers but the last, behind which nothing crosses.
std::vector<Crossing> crossings_of(const ModelPart& part, int layers, int micro_batch_size) {
  std::vector<Crossing> all;
  for (int l = 0; l + 1 < layers; ++l) {
    const std::int64_t bytes = part.layer(l).crossing_bytes * micro_batch_size;
    if (all.empty() || all.back().bytes != bytes) all.push_back({bytes, 0});
    ++all.back().layers;
  }
  return all;
}

}  // namespace

CutTimes crossing_times(const Plan& plan, const LayerCosts& known, const Cluster& cluster,
                        const ScheduleShape& shape) {
  const int layers = staged_layers(known.model());
  const std::vector<Crossing> crossings =
      crossings_of(*known.part(), layers, plan.micro_batch_size);
  CutTimes cuts;
  std::map<std::vector<std::int64_t>, std::size_t> found;  // a boundary of each, by its times
  for (std::int32_t s = 1; s < shape.stages; ++s) {
    const Rank from = shape.rank_of(Stage{s - 1}), to = shape.rank_of(Stage{s});
    const Link link = stage_link(known.costs(), plan, cluster, from, to);
    std::vector<std::int64_t> times;
    for (const Crossing& crossing : crossings) {
      const auto message = [&] {
        return stage_message(Bytes(crossing.bytes), plan, link, cluster);
      };
      times.push_back(from == to ? 0 : message().occupancy.count());
    }
    const auto [at, fresh] = found.try_emplace(times, cuts.size());
    if (!fresh) {
      cuts.push_back_like(at->second);
      continue;
    }
    std::vector<std::int64_t> before{0};  // each layer; before the first nothing crosses
    before.reserve(static_cast<std::size_t>(layers));
    for (std::size_t c = 0; c < times.size(); ++c)
      before.insert(before.end(), crossings[c].layers, times[c]);
    cuts.push_back(std::move(before));
  }
  return cuts;
}

}  // namespace weir
