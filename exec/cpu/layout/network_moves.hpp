// What a processor of a mesh reads from others' blocks when a tensor moves: between two names of
// its dimensions, or between tokens and the experts that they visit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "exec/cpu/layout/kernels/network_blocks.hpp"
#include "plan/layout/network.hpp"

namespace weir::cpu {

// A move as a processor's reads: from the dimensions `from` to the same under the names `to`, place
// by place; partial sums over `pending` are added up where they are split over those in `to`. Of a
// route one end has tokens and the other visits of experts (network_routes).
struct Move {
  const std::vector<int>& from;
  const std::vector<int>& to;
  layout::Axes pending = 0;
  enum class Visits : std::uint8_t { none, from, to } visits = Visits::none;
};

// What a processor reads for a move.
class MoveReads {
 public:
  MoveReads(const layout::Network& network, const layout::NetworkLayout& layout,
            const MeshPlace& place, const Move& move);
  [[nodiscard]] std::int64_t elements() const { return elements_; }
  // visit(element, processor, offset): of each element of the target its summands, a token's visits
  // in their order, partial sums in that of processors, and where each lies in that one's block.
  template <class Visit>
  void each(const Visit& visit) const {
    std::vector<std::size_t> index(origins_.size(), 0);
    for (std::int64_t i = 0; i < elements_; ++i) {
      std::int64_t processor = base_, offset = 0;
      std::size_t place = 0;
      for (std::size_t d = 0; d < origins_.size(); ++d) {
        place += index[d] * routed_[d];
        processor += origins_[d][index[d]].processor;
        offset += origins_[d][index[d]].offset;
      }
      for (std::size_t v = first_[place]; v < first_[place + 1]; ++v) {
        for (const std::int64_t summand : summands_)
          visit(i, processor + visits_[v].processor + summand, offset + visits_[v].offset);
      }
      // An odometer: the last dimension is the fastest.
      for (std::size_t d = origins_.size(); d-- > 0;) {
        if (++index[d] < origins_[d].size()) break;
        index[d] = 0;
      }
    }
  }

 private:
  // Of one index along a dimension of the target: where on the mesh, and where in the block there.
  struct Origin {
    std::int64_t processor, offset;
  };
  void set_visits(const layout::Network& network, const layout::NetworkLayout& layout,
                  const MeshPlace& place, const Move& move);

  std::int64_t elements_ = 0, base_ = 0;
  std::vector<std::vector<Origin>> origins_;  // by dimension and index
  std::vector<std::int64_t> summands_;        // of a partial sum: processors, from the first one
  // Of a route's dimensions that only one end has, all together: origins by their places, a token's
  // visits beside each other. Else there is one place, from where it is.
  std::vector<std::size_t> routed_;  // by dimension: how far places of neighbours are apart
  std::vector<std::size_t> first_{0, 1};
  std::vector<Origin> visits_{{0, 0}};
};

}  // namespace weir::cpu
