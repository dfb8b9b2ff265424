// SPDX-License-Identifier: Apache-2.0
#include "sim/search/refine.hpp"

#include <utility>

#include "plan/program.hpp"
#include "sim/engine/compiled_engine.hpp"

namespace weir {
namespace {

// Every partition with one layer moved across one boundary.
std::vector<std::vector<int>> neighbours(const std::vector<int>& boundaries, int layers) {
  std::vector<std::vector<int>> all;
  for (std::size_t b = 0; b < boundaries.size(); ++b) {
    const int low = b == 0 ? 0 : boundaries[b - 1];
    const int high = b + 1 == boundaries.size() ? layers : boundaries[b + 1];
    for (const int moved : {boundaries[b] - 1, boundaries[b] + 1}) {
      if (moved <= low || moved >= high) continue;
      all.push_back(boundaries);
      all.back()[b] = moved;
    }
  }
  return all;
}

}  // namespace

Refined refine_boundaries(const LoadedPlan& loaded, const Costs& costs, const Cluster& cluster) {
  Refined refined{loaded.plan.boundaries, 0};
  if (refined.boundaries.empty()) return refined;
  const auto compiled = compile(lower(loaded));  // one program: where the boundaries are changes durations only
  const auto* program = std::get_if<CompiledProgram>(&compiled);
  if (program == nullptr) return refined;
  CompiledEngine engine(*program);
  LoadedPlan moved = loaded;
  const auto table = [&](const std::vector<int>& boundaries) {
    moved.plan.boundaries = boundaries;
    return cost_table(moved, costs, cluster).table;
  };
  Nanoseconds best = engine.makespan(table(refined.boundaries));
  for (bool shorter = true; shorter;) {
    shorter = false;
    const auto near = neighbours(refined.boundaries, static_cast<int>(loaded.model.layers.size()));
    std::vector<CostTable> tables;
    for (const auto& boundaries : near) tables.push_back(table(boundaries));
    std::vector<Nanoseconds> makespans(near.size());
    engine.makespans(tables, makespans);
    refined.evaluated += static_cast<int>(near.size());
    for (std::size_t i = 0; i < near.size(); ++i) {
      if (makespans[i] >= best) continue;
      best = makespans[i];
      refined.boundaries = near[i];
      shorter = true;
    }
  }
  return refined;
}

}  // namespace weir
