// Fills pools in every order.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/space/placements.hpp"

#include <algorithm>
#include <numeric>

namespace weir {

std::vector<std::vector<PlacedRanks>> placements(const Plan& plan, const Cluster& cluster) {
  // In the other order a rank has devices in every replica, so it cannot keep to one pool.
  if (cluster.kinds() == 1 || plan.rank_order != RankOrder::tp_cp_dp_pp) return {{}};
  std::vector<int> order(static_cast<std::size_t>(cluster.kinds()));
  std::iota(order.begin(), order.end(), 0);
  std::vector<std::vector<PlacedRanks>> found;
  do {
    std::vector<PlacedRanks> filled;
    int left = plan.pp;
    for (const int kind : order) {
      const Cluster& pool = cluster.kind(kind);
      const int ranks = std::min(left, pool.devices() / plan.devices_per_rank());
      if (ranks > 0) filled.push_back({pool.name, ranks});
      left -= ranks;
    }
    if (left > 0) return {{}};  // of no other order, either: each pool holds as many
    // From the first order on, next_permutation() comes to all of them.
    std::ranges::sort(filled);
    do {
      if (std::ranges::find(found, filled) == found.end()) found.push_back(filled);
    } while (std::ranges::next_permutation(filled).found);
  } while (std::ranges::next_permutation(order).found);
  return found;
}

}  // namespace weir
