// Who sends which gradient of a tied weight to whom, where ranks are processes: each rank that
// holds a copy gets the gradients of all other copies. Both ends find the same order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "exec/training/gradient_copies.hpp"
#include "plan/program/program.hpp"

namespace weir {

using GradientKey = std::pair<std::int32_t, int>;  // global stage, and its parameter

struct GradientPeers {
  std::set<std::pair<GradientKey, std::int32_t>>
      outgoing;  // a gradient of this rank, and the rank that needs it
  struct Copy {
    std::int32_t rank = 0;  // that holds it
    GradientKey own;        // a parameter of this rank that is summed with it, of the same shape
  };
  std::map<GradientKey, Copy> incoming;  // by its place on the other rank
};
[[nodiscard]] GradientPeers gradient_peers(const Program& program, const GradientCopies& copies,
                                           Rank rank);

// All ranks that send or receive any, ascending; none where no weight is shared between ranks.
[[nodiscard]] std::vector<std::int32_t> sharing_ranks(const Program& program,
                                                      const GradientCopies& copies);

}  // namespace weir
