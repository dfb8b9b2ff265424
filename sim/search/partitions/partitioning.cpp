// Builds the problem from a plan, and ranks its candidates by the step.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/partitions/partitioning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "costmodel/table/stage_costs.hpp"
#include "sim/partition/balanced.hpp"
#include "sim/partition/candidates.hpp"
#include "sim/search/partitions/kept_together.hpp"
#include "sim/search/partitions/layer_memory.hpp"
#include "sim/search/partitions/layer_times.hpp"
#include "sim/search/partitions/refine.hpp"

namespace weir {
namespace {

// By chain stage, what it has in flight when its rank has most; of copies the larger.
std::vector<std::int64_t> in_flight_at_peaks(const Schedule& schedule) {
  const ScheduleShape& shape = schedule.shape;
  std::vector<std::int64_t> of_stage(at(shape.stages), 0);
  for (const Rank rank : schedule.order.ids()) {
    std::vector<std::int64_t> now(at(shape.total_stages()), 0), most = now;
    std::int64_t all = 0, peak = 0;
    for (const Action& action : schedule.order[rank]) {
      const bool begins = action.kind == ActionKind::F;
      const bool ends = action.kind == ActionKind::B || action.kind == ActionKind::W;
      now[at(action.stage.value)] += begins ? 1 : ends ? -1 : 0;
      all += begins ? 1 : ends ? -1 : 0;
      if (all > peak) {
        peak = all;
        most = now;
      }
    }
    for (std::size_t s = 0; s < most.size(); ++s) {
      auto& stage = of_stage[s % of_stage.size()];
      stage = std::max(stage, most[s]);
    }
  }
  return of_stage;
}

// Of ranks, as the schedule keeps micro-batches in flight.
PartitionMemory partition_memory(const Plan& plan, const LayerCosts& known, const Cluster& cluster,
                                 const Schedule& schedule) {
  PartitionMemory memory = layer_memory(plan, known, cluster);
  memory.in_flight = in_flight_at_peaks(schedule);
  return memory;
}

// F and what passes the gradient on, of each layer.
std::vector<std::int64_t> head_times(const Plan& plan, const LayerCosts& known,
                                     const Cluster& cluster, const Schedule& schedule) {
  const bool split = std::ranges::any_of(
      schedule.order[Rank{0}], [](const Action& action) { return action.kind == ActionKind::I; });
  const Plan single = of_single_layers(plan, static_cast<int>(known.model().layers.size()));
  const StageCosts costs(single, known, cluster.kind(0));
  std::vector<std::int64_t> times;
  for (int l = 0; l < single.pp; ++l) {
    const StageCost cost = costs.of({.layers = {l, l + 1}});
    times.push_back((cost.f + (split ? cost.i : cost.b)).count());
  }
  return times;
}

}  // namespace

PartitionProblem partition_problem(const Plan& plan, const LayerCosts& known,
                                   const Cluster& cluster, const Schedule& schedule) {
  const ScheduleShape& shape = schedule.shape;
  std::vector<std::vector<std::int64_t>> rows = rank_layer_times(plan, known, cluster);
  // A straggler has times of its own, so each rank needs a row.
  if (!cluster.stragglers.empty() && rows.size() == 1)
    rows.resize(at(plan.pp), std::vector(rows.front()));
  for (const auto& [rank, factor] : cluster.stragglers) {
    if (rank >= plan.pp) continue;
    for (std::int64_t& time : rows[at(rank)])
      time = std::llround(static_cast<double>(time) * factor);
  }
  PartitionProblem problem =
      placed_problem(std::move(rows), shape, crossing_times(plan, known, cluster, shape));
  if (cluster.device.memory.count() > 0)
    problem.memory = partition_memory(plan, known, cluster, schedule);
  return problem;
}

ChosenPartition shortest_step_partition(const Plan& plan, const LayerCosts& known,
                                        const Cluster& cluster, const Schedule& schedule) {
  PartitionProblem problem = partition_problem(plan, known, cluster, schedule);
  const auto heads = head_times(plan, known, cluster, schedule);
  // A slice passes the stages like a micro-batch.
  const std::int64_t units = std::int64_t{plan.microbatches} * plan.slices;
  PartitionCandidates found = partition_candidates(problem, units, heads);
  ChosenPartition chosen;
  if (found.minimax.boundaries.empty()) {
    // Nothing keeps to the memory: the fastest of those that do not.
    chosen.fits = found.minimax.proof != PartitionProof::infeasible;
    problem.memory.reset();
    found = partition_candidates(problem, units, heads);
  }
  const KeptTogether together(known.model(), cluster.stack);
  for (std::vector<int>& boundaries : found.boundaries)
    boundaries = together.kept(std::move(boundaries));
  // Any partition will do for the program: other boundaries change its durations only.
  Plan first = plan;
  first.boundaries = found.boundaries.front();
  const ResolvedPlan resolved = derive(first, known.model(), schedule, known.part());
  // Some seconds at most, whatever the size.
  constexpr std::int64_t kOperations = 300'000'000;
  const auto allowed = [&](const std::vector<int>& boundaries) {
    return (!problem.memory || slowest_ns(problem, boundaries).has_value()) &&
           together.keeps(boundaries);
  };
  const Refined refined =
      refine_boundaries(resolved, known, cluster, {found.boundaries, allowed, kOperations});
  chosen.boundaries = refined.boundaries;
  chosen.step = refined.makespan;
  chosen.simulated = refined.evaluated;
  chosen.minimax = std::move(found.minimax);
  if (chosen.step && found.step_bound_ns > 0) {
    const auto bound = static_cast<double>(found.step_bound_ns);
    chosen.gap = std::max(0.0, static_cast<double>(chosen.step->count()) / bound - 1);
  }
  chosen.optimal = refined.optimal || (chosen.step && chosen.gap == 0);
  return chosen;
}

std::string describe(const MinimaxPartition& minimax) {
  const double ms = static_cast<double>(minimax.slowest_ns) / 1e6;
  const bool optimal = minimax.proof == PartitionProof::optimal;
  return fmt::format(
      "partition: the busiest device or link takes {:.3f} ms a micro-batch, {}", ms,
      optimal ? "optimal" : fmt::format("at most {:.1f} % above the best", 100 * minimax.gap()));
}

std::string describe(const ChosenPartition& chosen) {
  std::string text =
      fmt::format("partition: the shortest step of {} simulated, ", chosen.simulated);
  text +=
      chosen.optimal ? "optimal" : fmt::format("at most {:.1f} % above the best", 100 * chosen.gap);
  if (!chosen.fits) text += "; none keeps to the devices' memory";
  return text;
}

}  // namespace weir
