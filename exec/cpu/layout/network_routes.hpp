// Which experts a token visits in a network run. No operation says so: like the integers of a
// gather it is data. Visits are as even as experts are priced to be: of all tokens' visits, token
// by token, each `experts` in a row go to every expert once, to one slot of each; the first of them
// to an expert one further from slot to slot. So a token's visits are of different experts.
//
//   visits   0 1 2 | 3 4 5 | 6 7 8
//   experts  0 1 2 | 1 2 0 | 2 0 1
//   slots    0 0 0 | 1 1 1 | 2 2 2
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "plan/layout/exchanges.hpp"

namespace weir::cpu {

[[nodiscard]] constexpr std::int64_t expert_of(std::int64_t visit, std::int64_t experts) {
  return (visit + visit / experts) % experts;
}
[[nodiscard]] constexpr std::int64_t visit_of(std::int64_t expert, std::int64_t slot,
                                              std::int64_t experts) {
  return slot * experts + (expert + experts - slot % experts) % experts;
}

// The two sides of a route or of its way back: dimensions that the other side has not. Tokens (and
// on the way back each one's visits, written last) lie in the order of theirs; of the visits' the
// last is that of slots, those before it number experts.
struct RouteSides {
  std::vector<int> tokens, visits;
  std::int64_t experts = 1, slots = 1;
  std::int64_t copies = 1;  // visits of each of `tokens`
};
[[nodiscard]] RouteSides route_sides(const layout::Network& network, const std::vector<int>& tokens,
                                     const std::vector<int>& visits);

// Whether all routes are read as they are priced: each processor's tokens are in a row, with as
// many visits of every expert, and slots are split where the first of the tokens' dimensions is, if
// at all. Else more or less is read.
[[nodiscard]] bool routes_as_priced(const layout::Network& network,
                                    const layout::NetworkLayout& layout);

}  // namespace weir::cpu
