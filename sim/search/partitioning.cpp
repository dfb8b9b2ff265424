// Builds the problem from a plan, and ranks its candidates by the step.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/partitioning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "costmodel/memory/memory_rules.hpp"
#include "costmodel/memory/stage_memory.hpp"
#include "costmodel/table/stage_costs.hpp"
#include "sim/partition/balanced.hpp"
#include "sim/partition/candidates.hpp"
#include "sim/search/balance.hpp"
#include "sim/search/refine.hpp"

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

PartitionMemory partition_memory(const Plan& plan, const LayerCosts& known, const Cluster& cluster,
                                 const Schedule& schedule) {
  const ModelPart& part = *known.part();
  const auto layers = static_cast<int>(part.layers.size());
  PartitionMemory memory;
  memory.in_flight = in_flight_at_peaks(schedule);
  const bool remat =
      plan.recompute.mode == RecomputeMode::full || plan.recompute.mode == RecomputeMode::stage;
  const std::int64_t longest_chunk =
      std::min<std::int64_t>(plan.recompute.at_a_time, ceil_div(layers, plan.stages()));
  std::int64_t beside = 0, message = 0;
  StagePart single;
  for (int l = 0; l < layers; ++l) {
    single.layers = {l, l + 1};
    single.parameters = part.layer(l).parameters;
    single.input_bytes = std::exchange(single.output_bytes, part.layer(l).crossing_bytes);
    const StageMemory stage(plan, part, single, cluster.device.allocator, cluster.stack);
    memory.held.push_back(total_bytes(stage.parameters()));
    // The input came in a slot, and the output leaves with its message.
    const Footprint forward = stage.of(ActionKind::F, remat);
    const std::int64_t kept = total_bytes(forward.net) + stage.input_bytes() - stage.output_bytes();
    // Of a chunk one input, on average, and all tensors at once; the forecast knows where it
    // begins.
    const std::int64_t chunk = rebuilds(plan.recompute, part.layer(l), l) ? longest_chunk : 1;
    memory.kept.push_back(std::max<std::int64_t>(0, kept / chunk));
    beside = std::max({beside, total_bytes(forward.worst) - kept,
                       chunk * total_bytes(stage.of(ActionKind::B, remat).worst)});
    message = std::max(message, stage.input_bytes());
  }
  const std::int64_t slots = plan.slots == 0 ? 2 : plan.slots;
  const Bytes room = cluster.device.memory - memory_rules(cluster, part).process_overhead;
  memory.capacity.assign(at(plan.pp), room.count() - beside - 2 * slots * message);
  return memory;
}

// F and what passes the gradient on, of each layer.
std::vector<std::int64_t> head_times(const Plan& plan, const LayerCosts& known,
                                     const Cluster& cluster, const Schedule& schedule) {
  const bool split = std::ranges::any_of(
      schedule.order[Rank{0}], [](const Action& action) { return action.kind == ActionKind::I; });
  Plan single = plan;
  single.pp = static_cast<int>(known.model().layers.size());
  const StageCosts costs(single, known, cluster);
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
  const auto times = layer_times(plan, known, cluster);
  std::vector<std::vector<std::int64_t>> rows(1, times);
  if (!cluster.stragglers.empty()) rows.resize(at(plan.pp), times);
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
  const std::int64_t units = std::int64_t{plan.microbatches} * plan.slices;
  PartitionCandidates found = partition_candidates(problem, units, heads);
  ChosenPartition chosen;
  if (found.minimax.boundaries.empty()) {
    // Nothing keeps to the memory: the fastest of those that do not.
    chosen.fits = found.minimax.proof != PartitionProof::infeasible;
    problem.memory.reset();
    found = partition_candidates(problem, units, heads);
  }
  Plan first = plan;
  first.boundaries = found.boundaries.front();
  const ResolvedPlan resolved = derive(first, known.model(), schedule, known.part());
  // Some seconds at most, whatever the size.
  constexpr std::int64_t kOperations = 300'000'000;
  const auto allowed = [&problem](const std::vector<int>& boundaries) {
    return !problem.memory || slowest_ns(problem, boundaries).has_value();
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
