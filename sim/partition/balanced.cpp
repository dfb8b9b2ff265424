// Two passes: the least limit first, then the even partition under it (docs/theory.md 4.1).
// SPDX-License-Identifier: Apache-2.0
#include "sim/partition/balanced.hpp"

#include <algorithm>
#include <cassert>

#include "sim/partition/chain_search.hpp"

namespace weir {

std::vector<int> best_boundaries(std::span<const std::int64_t> times, int stages,
                                 const CutTimes& cuts) {
  const auto layers = static_cast<int>(times.size());
  assert(stages >= 1 && layers >= 1);
  if (stages > layers) {
    std::vector<int> boundaries;
    for (int s = 1; s < stages; ++s) boundaries.push_back(std::min(s, layers - 1));
    return boundaries;
  }
  assert(cuts.empty() || static_cast<int>(cuts.size()) == stages - 1);
  const PartitionProblem problem = chain_problem(times, stages, cuts);
  const ChainSearch search(problem);
  return search.even(search.least_limit().value()).value();
}

}  // namespace weir
