// Which gradients cross between ranks, from the uses of each weight.
// SPDX-License-Identifier: Apache-2.0
#include "exec/training/gradient_peers.hpp"

namespace weir {

GradientPeers gradient_peers(const Program& program, const GradientCopies& copies, Rank rank) {
  GradientPeers peers;
  const ScheduleShape& shape = program.shape();
  for (std::int32_t stage = 0; stage < static_cast<std::int32_t>(copies.size()); ++stage) {
    const bool here = shape.rank_of(Stage{stage}) == rank;
    for (std::size_t p = 0; p < copies[stage].size(); ++p) {
      for (const GradientUse& use : copies[stage][p]) {
        // Named by the use, which both ends know.
        const GradientKey key{use.stage.value, use.parameter};
        const bool there = shape.rank_of(use.stage) == rank;
        if (here && !there) {
          // Another rank's use is needed here: it comes in beside the parameter that it is added
          // to.
          peers.incoming[key] = {shape.rank_of(use.stage).value, {stage, static_cast<int>(p)}};
        }
        if (!here && there) peers.outgoing.insert({key, shape.rank_of(Stage{stage}).value});
      }
    }
  }
  return peers;
}

std::vector<std::int32_t> sharing_ranks(const Program& program, const GradientCopies& copies) {
  std::vector<std::int32_t> ranks;
  for (std::int32_t rank = 0; rank < program.shape().ranks; ++rank) {
    const GradientPeers peers = gradient_peers(program, copies, Rank{rank});
    if (!peers.outgoing.empty() || !peers.incoming.empty()) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace weir
