// Evaluates whole steps over partitions: all of them where they are few, else a descent
// (docs/theory.md 4.2).
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/refine.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "costmodel/table/stage_costs.hpp"
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

// C(n, k), or `most` + 1 where it is more.
int binomial(int n, int k, int most) {
  std::int64_t count = 1;
  for (int i = 1; i <= k && count <= most; ++i) count = count * (n - k + i) / i;
  return static_cast<int>(std::min<std::int64_t>(count, most + 1));
}

// Every way to cut `layers` layers into one more stage than there are boundaries, in lexicographic
// order.
std::vector<std::vector<int>> all_partitions(std::size_t boundaries, int layers) {
  std::vector<std::vector<int>> all;
  std::vector<int> now(boundaries);
  std::iota(now.begin(), now.end(), 1);
  for (;;) {
    all.push_back(now);
    std::size_t b = boundaries;
    while (b > 0 && now[b - 1] == layers - static_cast<int>(boundaries - b) - 1) --b;
    if (b == 0) return all;
    ++now[b - 1];
    for (std::size_t next = b; next < boundaries; ++next) now[next] = now[next - 1] + 1;
  }
}

}  // namespace

Refined refine_boundaries(const ResolvedPlan& resolved, const LayerCosts& known,
                          const Cluster& cluster, const RefineLimits& limits) {
  const auto compiled = compile(resolved.program);
  return refine_boundaries(resolved, std::get_if<CompiledProgram>(&compiled), known, cluster,
                           limits);
}

Refined refine_boundaries(const ResolvedPlan& resolved, const CompiledProgram* compiled,
                          const LayerCosts& known, const Cluster& cluster,
                          const RefineLimits& limits) {
  Refined refined{.boundaries = resolved.plan.boundaries};
  if (compiled == nullptr) return refined;
  // One program: where the boundaries are changes durations only.
  CompiledEngine engine(*compiled);
  const StageCosts costs(resolved.plan, known, cluster);
  const ScheduleShape& shape = resolved.schedule.shape;
  const auto table = [&](const std::vector<int>& boundaries) {
    const auto stages = stage_parts(*resolved.part, boundaries, shape);
    return costs.table(shape, stages, ties_of(*resolved.part, stages, shape));
  };
  Nanoseconds best = engine.makespan(table(refined.boundaries));
  refined.makespan = best;
  if (refined.boundaries.empty()) return refined;
  const auto operations = static_cast<std::int64_t>(resolved.program.size());
  // Moves to the best of `others` where that is better; says whether it was.
  const auto improve = [&](std::vector<std::vector<int>> others) {
    if (limits.allowed) std::erase_if(others, [&](const auto& o) { return !limits.allowed(o); });
    std::vector<CostTable> tables;
    for (const auto& boundaries : others) tables.push_back(table(boundaries));
    std::vector<Nanoseconds> makespans(others.size());
    engine.makespans(tables, makespans);
    refined.evaluated += static_cast<int>(others.size());
    bool shorter = false;
    for (std::size_t i = 0; i < others.size(); ++i) {
      // Ties keep what was found first.
      if (makespans[i] >= best) continue;
      refined.makespan = best = makespans[i];
      refined.boundaries = others[i];
      shorter = true;
    }
    return shorter;
  };
  constexpr int kFew = 128;
  const auto layers = static_cast<int>(resolved.model.layers.size());
  if (resolved.plan.stages() > layers) return refined;  // a layer a stage: nothing to move
  improve(limits.starts);
  refined.optimal = binomial(layers - 1, static_cast<int>(refined.boundaries.size()), kFew) <= kFew;
  if (refined.optimal) {
    improve(all_partitions(refined.boundaries.size(), layers));
  } else {
    while (refined.evaluated * operations < limits.operations &&
           improve(neighbours(refined.boundaries, layers))) {
    }
  }
  return refined;
}

}  // namespace weir
