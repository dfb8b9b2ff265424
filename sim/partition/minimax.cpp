// Chooses the search by what stages share, and brackets its answer.
// SPDX-License-Identifier: Apache-2.0
#include "sim/partition/minimax.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include "sim/partition/chain_search.hpp"
#include "sim/partition/shared_search.hpp"

namespace weir {
namespace {

bool each_its_own(const std::vector<std::vector<int>>& holders) {
  std::set<int> seen;
  return std::ranges::all_of(holders, [&seen](const std::vector<int>& those) {
    return those.size() == 1 && seen.insert(those.front()).second;
  });
}

// All stages on devices of their own, kinds kept: the shared problem's first guess.
PartitionProblem unshared(const PartitionProblem& problem) {
  PartitionProblem chain = chain_problem(problem.layer_ns.front(), problem.stages);
  chain.layer_ns = problem.layer_ns;
  chain.kinds.clear();
  for (const auto& holders : problem.devices)
    chain.kinds.push_back(problem.kinds[at(holders.front())]);
  return chain;
}

// Moves one layer at a time across one boundary while that makes the busiest less busy.
void descend(const PartitionProblem& problem, std::vector<int>& boundaries,
             std::optional<std::int64_t>& slowest) {
  const auto free_place = [&](std::size_t b, int place) {
    // Each stage keeps a layer.
    const int low = b == 0 ? 0 : boundaries[b - 1];
    const int high = b + 1 == boundaries.size() ? problem.layers() : boundaries[b + 1];
    return low < place && place < high;
  };
  for (bool better = true; better;) {
    better = false;
    for (std::size_t b = 0; b < boundaries.size(); ++b) {
      for (const int step : {-1, 1}) {
        const int before = boundaries[b];
        if (!free_place(b, before + step)) continue;
        boundaries[b] = before + step;
        const auto now = slowest_ns(problem, boundaries);
        if (now && (!slowest || *now < *slowest)) {
          slowest = now;
          better = true;
        } else {
          boundaries[b] = before;
        }
      }
    }
  }
}

MinimaxPartition chain_partition(const PartitionProblem& problem) {
  const ChainSearch search(problem);
  const auto limit = search.least_limit();
  if (!limit) return {PartitionProof::infeasible, {}, 0, 0};
  return {PartitionProof::optimal, *search.front_heavy(*limit), *limit, *limit};
}

MinimaxPartition shared_partition(const PartitionProblem& problem, std::int64_t budget) {
  SharedSearch search(problem);
  const PartitionProblem chain = unshared(problem);
  const ChainSearch first_guess(chain);
  MinimaxPartition best;
  best.boundaries = *first_guess.even(*first_guess.least_limit());
  auto slowest = slowest_ns(problem, best.boundaries);
  // Only limits below this are searched, so each step down saves a decision.
  if (slowest) descend(problem, best.boundaries, slowest);
  constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max() / 4;
  // No good guess keeps to the memory: any partition that does will be the start.
  if (!slowest) {
    const auto outcome = search.decide(kAny, budget);
    best.proof = outcome == SharedSearch::Outcome::none ? PartitionProof::infeasible
                                                        : PartitionProof::unknown;
    best.boundaries.clear();
    if (outcome != SharedSearch::Outcome::found) return best;
    best.boundaries = search.boundaries();
    slowest = slowest_ns(problem, best.boundaries);
    descend(problem, best.boundaries, slowest);
  }
  best.slowest_ns = *slowest;
  best.lower_bound_ns = std::min(search.lower_bound(), best.slowest_ns);
  // `unproved`: limits from here on are worth a try, though those below were not refuted.
  for (std::int64_t unproved = best.lower_bound_ns; unproved < best.slowest_ns && budget > 0;) {
    const std::int64_t middle = unproved + (best.slowest_ns - unproved) / 2;
    // Half of what is left for each limit, so that one hard one does not end the search.
    std::int64_t share = std::max<std::int64_t>(1, budget / 2);
    const std::int64_t given = share;
    const auto outcome = search.decide(middle, share);
    budget -= given - share;
    if (outcome == SharedSearch::Outcome::found) {
      best.boundaries = search.boundaries();
      best.slowest_ns = *slowest_ns(problem, best.boundaries);
      continue;
    }
    if (outcome == SharedSearch::Outcome::none) best.lower_bound_ns = middle + 1;
    unproved = middle + 1;
    // What is left of the budget would decide no other limit.
    if (outcome == SharedSearch::Outcome::exhausted && budget < 64) break;
  }
  best.proof =
      best.slowest_ns == best.lower_bound_ns ? PartitionProof::optimal : PartitionProof::bounded;
  return best;
}

}  // namespace

double MinimaxPartition::gap() const {
  if (slowest_ns == lower_bound_ns) return 0;
  return static_cast<double>(slowest_ns) / static_cast<double>(lower_bound_ns) - 1;
}

MinimaxPartition minimax_partition(const PartitionProblem& problem, std::int64_t budget) {
  const bool links_apart = problem.cut_ns.empty() || each_its_own(problem.links);
  if (each_its_own(problem.devices) && links_apart) return chain_partition(problem);
  return shared_partition(problem, budget);
}

}  // namespace weir
