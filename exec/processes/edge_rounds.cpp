// A greedy edge colouring.
// SPDX-License-Identifier: Apache-2.0
#include "exec/processes/edge_rounds.hpp"

#include <map>
#include <set>

namespace weir {

std::vector<int> connection_rounds(
    const std::vector<std::pair<std::int32_t, std::int32_t>>& edges) {
  std::map<std::int32_t, std::set<int>> busy;  // by process: its rounds
  std::vector<int> rounds;
  for (const auto& [from, to] : edges) {
    int round = 0;
    while (busy[from].contains(round) || busy[to].contains(round)) ++round;
    busy[from].insert(round);
    busy[to].insert(round);
    rounds.push_back(round);
  }
  return rounds;
}

}  // namespace weir
