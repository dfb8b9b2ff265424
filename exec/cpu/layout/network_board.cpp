// Reading what others have, between two meetings.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/layout/network_board.hpp"

#include <algorithm>

#include "plan/words/indexed.hpp"

namespace weir::cpu {

using layout::Axes;

MoveReads::MoveReads(const layout::Network& network, const layout::NetworkLayout& layout,
                     const MeshPlace& place, const Move& move) {
  const BlockShape a(network, layout, move.from), b(network, layout, move.to);
  const Axes source = axes_of(layout, move.from),
             scattered = move.pending & axes_of(layout, move.to);
  elements_ = b.elements;
  // Where nothing that moves says otherwise, a processor's own block is read.
  base_ = place.processor() - place.step_to(source, place.part(source)) -
          place.step_to(scattered, place.part(scattered));
  origins_.resize(move.to.size());
  for (std::size_t d = 0; d < move.to.size(); ++d) {
    const std::int64_t begin = place.part(layout.over[at(move.to[d])]) * b.sizes[d];
    for (std::int64_t i = begin; i < begin + b.sizes[d]; ++i) {
      origins_[d].push_back({place.step_to(layout.over[at(move.from[d])], i / a.sizes[d]),
                             i % a.sizes[d] * a.strides[d]});
    }
  }
  for (std::int64_t p = 0; p < members(layout, scattered); ++p)
    summands_.push_back(place.step_to(scattered, p));
}

std::int64_t ThreadBoard::all_reduce(const MeshPlace& place, Axes axes, float* block,
                                     std::int64_t n, Reduction reduction) {
  const std::vector<int> group = place.group(axes);
  if (group.size() == 1) return 0;
  const ReducedParts parts{static_cast<int>(group.size()), n};
  const auto self = static_cast<int>(std::ranges::find(group, place.processor()) - group.begin());
  // As AllReduce::run, but that all of the mesh meet, each in a group of its own.
  blocks_[at(place.processor())] = block;
  workers_.meet();
  std::vector<float*> blocks;
  for (const int processor : group) blocks.push_back(blocks_[at(processor)]);
  reduce_own_part(blocks, parts, self, reduction);
  workers_.meet();
  take_other_parts(blocks, parts, self);
  workers_.meet();
  return parts.exchanged(self);
}

std::int64_t ThreadBoard::relocate(const MeshPlace& place, const Move& move, float* in,
                                   float* out) {
  const MoveReads reads(network(), layout(), place, move);
  blocks_[at(place.processor())] = in;
  workers_.meet();
  std::fill_n(out, reads.elements(), 0.0F);
  std::int64_t read = 0;
  reads.each([&](std::int64_t i, std::int64_t processor, std::int64_t offset) {
    out[i] += blocks_[at(processor)][offset];
    read += processor == place.processor() ? 0 : 1;
  });
  workers_.meet();
  return read;
}

}  // namespace weir::cpu
