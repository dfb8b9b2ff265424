// Asks each measure for its best partition.
// SPDX-License-Identifier: Apache-2.0
#include "sim/partition/candidates.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "sim/partition/chain_search.hpp"
#include "sim/partition/shipped.hpp"

namespace weir {
namespace {

bool a_device_a_stage(const PartitionProblem& problem) {
  return problem.devices.size() == problem.kinds.size() &&
         std::ranges::all_of(problem.devices,
                             [](const auto& holders) { return holders.size() == 1; });
}

}  // namespace

PartitionCandidates partition_candidates(const PartitionProblem& problem, std::int64_t microbatches,
                                         const std::vector<std::int64_t>& head_ns) {
  PartitionCandidates all;
  const auto add = [&all](const std::optional<std::vector<int>>& boundaries) {
    if (boundaries && std::ranges::find(all.boundaries, *boundaries) == all.boundaries.end())
      all.boundaries.push_back(*boundaries);
  };
  const auto both = [&add](const ChainSearch& search) {
    const auto limit = search.least_limit();
    if (!limit) return limit;
    add(search.even(*limit));
    add(search.front_heavy(*limit));
    return limit;
  };
  all.minimax = minimax_partition(problem);
  if (!all.minimax.boundaries.empty()) add(all.minimax.boundaries);
  // As if every stage had a device of its own, and boundaries were free.
  PartitionProblem alone = chain_problem(problem.layer_ns.front(), problem.stages);
  // All micro-batches pass the busiest device, so its least time bounds the step (docs/theory.md
  // 3.2).
  all.step_bound_ns = microbatches * all.minimax.lower_bound_ns;
  // A chain search needs a device for each stage; where stages share devices only the plain one
  // remains.
  if (a_device_a_stage(problem)) {
    both(ChainSearch(problem));
    const ChainSearch step(problem, {microbatches, head_ns});
    all.step_bound_ns = std::max(all.step_bound_ns, both(step).value_or(0));
    alone.layer_ns = problem.layer_ns;
    alone.kinds = problem.kinds;
    alone.devices = problem.devices;
  }
  both(ChainSearch(alone));
  add(uniform_boundaries(problem.layers(), problem.stages));
  add(block_boundaries(problem.layer_ns.front(), problem.stages));
  return all;
}

}  // namespace weir
