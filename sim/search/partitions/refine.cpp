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
    // Shards stand behind all copies, and have no boundary.
    for (std::int32_t s = before; s < shape_.stages * shape_.replicas; s += shape_.stages) {
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

// The walk from the plan's own boundaries to better ones. One program serves all of them: where
// boundaries are changes durations only.
class StepDescent {
 public:
  // The references must outlive it.
  StepDescent(const ResolvedPlan& resolved, const CompiledProgram& compiled,
              const LayerCosts& known, const Cluster& cluster, const RefineLimits& limits)
      : plan_(resolved.plan),
        layers_(staged_layers(resolved.model)),
        operations_(operations_of_a_move(resolved)),
        limits_(limits),
        engine_(compiled),
        table_(resolved, known, cluster),
        refined_{.boundaries = resolved.plan.boundaries} {}

  Refined run() && {
    best_ = engine_.makespan(table_.of(refined_.boundaries));
    refined_.makespan = best_;
    // One stage, or a layer a stage: there is nothing to move.
    if (refined_.boundaries.empty() || plan_.stages() > layers_) return std::move(refined_);
    improve_among(limits_.starts);
    const std::size_t boundaries = refined_.boundaries.size();
    if (binomial(layers_ - 1, static_cast<int>(boundaries), kFew) <= kFew) {
      improve_among(all_partitions(boundaries, layers_));
      refined_.optimal = !spent();
    } else {
      while (!spent() && improve_by_a_move()) {
      }
    }
    return std::move(refined_);
  }

 private:
  // A move prices two stages anew, layer by layer, which takes as long as several operations each.
  static std::int64_t operations_of_a_move(const ResolvedPlan& resolved) {
    constexpr std::int64_t kLayer = 8;
    const auto layers = std::ssize(resolved.model.layers);
    return std::ssize(resolved.program.ids()) + 2 * kLayer * layers / resolved.plan.stages();
  }

  static constexpr int kFew = 128;
  // A few at a time: thousands of stages have as many neighbours.
  static constexpr std::size_t kTogether = 64;

  [[nodiscard]] bool spent() const {
    return refined_.evaluated * operations_ >= limits_.operations ||
           (limits_.over && limits_.over());
  }

  // Goes to the best of `count` partitions where it is better, as far as the limit lets it look;
  // says whether it was.
  template <class PartitionAt, class TableAt>
  bool improve(std::size_t count, const PartitionAt& partition_at, const TableAt& table_at) {
    bool shorter = false;
    for (std::size_t first = 0; first < count && !spent(); first += kTogether) {
      std::vector<std::vector<int>> others;
      std::vector<CostTable> tables;
      for (std::size_t i = first; i < std::min(first + kTogether, count); ++i) {
        std::vector<int> boundaries = partition_at(i);
        if (limits_.allowed && !limits_.allowed(boundaries)) continue;
        tables.push_back(table_at(i));
        others.push_back(std::move(boundaries));
      }
      if (take_shortest(others, tables)) shorter = true;
    }
    return shorter;
  }
  bool take_shortest(const std::vector<std::vector<int>>& others,
                     const std::vector<CostTable>& tables) {
    std::vector<Nanoseconds> makespans(tables.size());
    engine_.makespans(tables, makespans);
    refined_.evaluated += static_cast<int>(tables.size());
    bool shorter = false;
    for (std::size_t i = 0; i < others.size(); ++i) {
      // Ties keep what was found first.
      if (makespans[i] >= best_) continue;
      refined_.makespan = best_ = makespans[i];
      refined_.boundaries = others[i];
      shorter = true;
    }
    return shorter;
  }

  bool improve_among(const std::vector<std::vector<int>>& all) {
    return improve(
        all.size(), [&](std::size_t i) { return all[i]; },
        [&](std::size_t i) { return table_.of(all[i]); });
  }
  bool improve_by_a_move() {
    // Copied, because the best found so far takes the place of where the moves began.
    const std::vector<int> from = refined_.boundaries;
    const std::vector<Move> all = moves(from, layers_);
    table_.stand_on(from);
    const auto partition_at = [&](std::size_t i) {
      std::vector<int> to = from;
      to[all[i].boundary] = all[i].to;
      return to;
    };
    return improve(all.size(), partition_at, [&](std::size_t i) { return table_.moved(all[i]); });
  }

  const Plan& plan_;
  int layers_;
  std::int64_t operations_;
  const RefineLimits& limits_;
  CompiledEngine engine_;
  PartitionTables table_;
  Refined refined_;
  Nanoseconds best_{0};
};

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
  if (compiled == nullptr) return {.boundaries = resolved.plan.boundaries};
  return StepDescent(resolved, *compiled, known, cluster, limits).run();
}

}  // namespace weir
