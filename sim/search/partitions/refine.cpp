// Evaluates whole steps over partitions: all of them where they are few, else a descent
// (docs/theory.md 4.2).
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/partitions/refine.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "costmodel/table/stage_costs.hpp"
#include "plan/words/indexed.hpp"
#include "sim/engine/compiled_engine.hpp"

namespace weir {
namespace {

struct Move {
  std::size_t boundary;
  int to;
};

// Every way to move one layer across one boundary.
std::vector<Move> moves(const std::vector<int>& boundaries, int layers) {
  std::vector<Move> all;
  for (std::size_t b = 0; b < boundaries.size(); ++b) {
    const int low = b == 0 ? 0 : boundaries[b - 1];
    const int high = b + 1 == boundaries.size() ? layers : boundaries[b + 1];
    for (const int moved : {boundaries[b] - 1, boundaries[b] + 1}) {
      if (moved > low && moved < high) all.push_back({b, moved});
    }
  }
  return all;
}

// Tables of one plan's partitions. Those a move away from one partition price the two stages that
// are others, and their copies.
class PartitionTables {
 public:
  // The references must outlive it.
  PartitionTables(const ResolvedPlan& resolved, const LayerCosts& known, const Cluster& cluster)
      : part_(*resolved.part),
        shape_(resolved.schedule.shape),
        costs_(resolved.plan, known, cluster) {}

  [[nodiscard]] CostTable of(const std::vector<int>& boundaries) const {
    const auto stages = stage_parts(part_, boundaries, shape_);
    return costs_.table(shape_, stages, ties_of(part_, stages, shape_));
  }
  void stand_on(const std::vector<int>& boundaries) {
    stages_ = stage_parts(part_, boundaries, shape_);
    alone_ = costs_.alone(shape_, stages_);
  }
  [[nodiscard]] CostTable moved(const Move& move) const {
    std::vector<StagePart> stages = stages_;
    CostTable alone = alone_;
    const auto before = static_cast<std::int32_t>(move.boundary);  // the stage that ends there
    for (std::int32_t s = before; s < shape_.total_stages(); s += shape_.stages) {
      StagePart &left = stages[at(s)], &right = stages[at(s + 1)];
      left = stage_part(part_, {left.layers.first, move.to});
      right = stage_part(part_, {move.to, right.layers.last});
      costs_.price(alone, shape_, stages, Stage{s});
      costs_.price(alone, shape_, stages, Stage{s + 1});
    }
    return costs_.together(std::move(alone), shape_, ties_of(part_, stages, shape_));
  }

 private:
  const ModelPart& part_;
  const ScheduleShape& shape_;
  StageCosts costs_;
  std::vector<StagePart> stages_;
  CostTable alone_;
};

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
  PartitionTables table(resolved, known, cluster);
  Nanoseconds best = engine.makespan(table.of(refined.boundaries));
  refined.makespan = best;
  if (refined.boundaries.empty()) return refined;
  const auto operations = static_cast<std::int64_t>(resolved.program.size());
  const auto spent = [&] { return refined.evaluated * operations >= limits.operations; };
  // Goes to the best of `count` partitions where it is better, as far as the limit lets it look;
  // says whether it was.
  const auto improve = [&](std::size_t count, const auto& partition, const auto& table_of) {
    // A few at a time: thousands of stages have as many neighbours.
    constexpr std::size_t kTogether = 64;
    std::vector<std::vector<int>> others;
    std::vector<CostTable> tables;
    std::vector<Nanoseconds> makespans;
    bool shorter = false;
    for (std::size_t first = 0; first < count && !spent(); first += kTogether) {
      others.clear();
      tables.clear();
      for (std::size_t i = first; i < std::min(first + kTogether, count); ++i) {
        std::vector<int> boundaries = partition(i);
        if (limits.allowed && !limits.allowed(boundaries)) continue;
        tables.push_back(table_of(i));
        others.push_back(std::move(boundaries));
      }
      makespans.resize(tables.size());
      engine.makespans(tables, makespans);
      refined.evaluated += static_cast<int>(tables.size());
      for (std::size_t i = 0; i < others.size(); ++i) {
        // Ties keep what was found first.
        if (makespans[i] >= best) continue;
        refined.makespan = best = makespans[i];
        refined.boundaries = others[i];
        shorter = true;
      }
    }
    return shorter;
  };
  const auto improve_among = [&](const std::vector<std::vector<int>>& all) {
    return improve(
        all.size(), [&](std::size_t i) { return all[i]; },
        [&](std::size_t i) { return table.of(all[i]); });
  };
  const auto improve_by_a_move = [&](int layers) {
    const std::vector<int> from = refined.boundaries;
    const std::vector<Move> all = moves(from, layers);
    table.stand_on(from);
    const auto partition = [&](std::size_t i) {
      std::vector<int> to = from;
      to[all[i].boundary] = all[i].to;
      return to;
    };
    return improve(all.size(), partition, [&](std::size_t i) { return table.moved(all[i]); });
  };
  constexpr int kFew = 128;
  const auto layers = static_cast<int>(resolved.model.layers.size());
  if (resolved.plan.stages() > layers) return refined;  // a layer a stage: nothing to move
  improve_among(limits.starts);
  if (binomial(layers - 1, static_cast<int>(refined.boundaries.size()), kFew) <= kFew) {
    improve_among(all_partitions(refined.boundaries.size(), layers));
    refined.optimal = !spent();
  } else {
    while (!spent() && improve_by_a_move(layers)) {
    }
  }
  return refined;
}

}  // namespace weir
