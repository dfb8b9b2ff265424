// Places stages on kinds of nodes, and asks for the partition.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/partitions/pool_partition.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "plan/job/placement.hpp"
#include "sim/partition/minimax.hpp"
#include "sim/search/partitions/layer_memory.hpp"
#include "sim/search/partitions/layer_times.hpp"

namespace weir {
namespace {

// By stage: micro-batches that 1F1B keeps on its rank, shared among the rank's stages.
std::int64_t in_flight(const Plan& plan, Rank rank) {
  const std::int64_t m = std::int64_t{plan.microbatches} * plan.slices, v = plan.vpp;
  const std::int64_t behind = plan.pp - rank.value - 1;
  // docs/theory.md 2.1, of 1f1b and interleaved-1f1b.
  const std::int64_t on_rank =
      v == 1 ? behind + 1 : std::int64_t{2} * behind + (v - 1) * plan.pp + 1;
  return std::min(m, ceil_div(on_rank, v));
}

}  // namespace

PartitionProblem pool_problem(const Plan& plan, const LayerCosts& known, const Cluster& cluster,
                              const ScheduleShape& shape) {
  const auto rows = rank_layer_times(plan, known, cluster);
  PartitionProblem problem;
  problem.stages = shape.stages;
  problem.cut_ns = crossing_times(plan, known, cluster, shape);
  PartitionMemory memory = layer_memory(plan, known, cluster);
  const std::vector<std::int64_t> of_ranks = std::exchange(memory.capacity, {});
  const std::int64_t stages_a_rank = shape.total_stages() / shape.ranks;
  for (std::int32_t s = 0; s < shape.stages; ++s) {
    std::vector<std::int64_t> times(rows.front().size(), 0);
    std::int64_t capacity = std::numeric_limits<std::int64_t>::max(), most = 0;
    for (std::int32_t copy = s; copy < shape.total_stages(); copy += shape.stages) {
      const Rank rank = shape.rank_of(Stage{copy});
      for (std::size_t l = 0; l < times.size(); ++l)
        times[l] = std::max(times[l], rows[rank.position()][l]);
      capacity = std::min(capacity, of_ranks[rank.position()] / stages_a_rank);
      most = std::max(most, in_flight(plan, rank));
    }
    // Stages on the same kinds share a row.
    const auto row = std::ranges::find(problem.layer_ns, times);
    problem.kinds.push_back(static_cast<int>(row - problem.layer_ns.begin()));
    if (row == problem.layer_ns.end()) problem.layer_ns.push_back(std::move(times));
    problem.devices.push_back({s});
    if (s > 0) problem.links.push_back({s - 1});
    memory.capacity.push_back(capacity);
    memory.in_flight.push_back(most);
  }
  problem.memory = std::move(memory);
  return problem;
}

std::vector<int> pool_boundaries(PartitionProblem problem) {
  MinimaxPartition found = minimax_partition(problem);
  if (!found.boundaries.empty() || problem.stages == 1) return std::move(found.boundaries);
  // Nothing keeps to the memory: the fastest of those that do not.
  problem.memory.reset();
  return minimax_partition(problem).boundaries;
}

}  // namespace weir
