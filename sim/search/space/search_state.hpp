// Where a search of a large space stands between two blocks of candidates: what it needs to go on
// to the same result, as small numbers; plans are made anew from their nodes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/words/units.hpp"
#include "sim/search/space/left_out.hpp"

namespace weir {

// A candidate as it was refined.
struct RefinedNode {
  std::uint32_t node = 0;
  int slots = 0;
  std::vector<int> boundaries{};
};

struct SearchState {
  std::uint64_t candidates = 0;   // of the space, by which another one is known
  std::uint64_t next = 0;         // group of candidates, in the order of their estimates
  std::int64_t passed = 0;        // candidates of the groups before it
  std::vector<RefinedNode> best;  // best first
  std::vector<std::uint32_t> waiting;
  LeftOut schedule{"schedule"}, memory{"memory"}, host{"host memory"};
  std::optional<std::pair<std::uint32_t, Bytes>> nearest{};  // of those that do not fit
  std::int64_t looked_at = 0, simulated = 0;
  int refined = 0, feasible = 0;
};

[[nodiscard]] nlohmann::ordered_json to_json(const SearchState& state);
// Throws InputError, naming `file` and the key, for what to_json() does not write.
[[nodiscard]] SearchState parse_search_state(const nlohmann::ordered_json& json,
                                             const std::string& file);

}  // namespace weir
