// Reading what others have, between two meetings.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/layout/network_board.hpp"

#include <algorithm>

#include "plan/words/indexed.hpp"

namespace weir::cpu {

using layout::Axes;

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

SharedPart shared_part(const layout::NetworkLayout& layout, const MeshPlace& place, Axes sharers,
                       std::int64_t elements) {
  return {{static_cast<int>(members(layout, sharers)), elements},
          static_cast<int>(place.part(sharers))};
}

std::vector<float*> ThreadBoard::blocks_along(const MeshPlace& place, Axes axes) const {
  std::vector<float*> blocks;
  for (const int processor : place.group(axes)) blocks.push_back(blocks_[at(processor)]);
  return blocks;
}

std::int64_t ThreadBoard::reduce_share(const MeshPlace& place, Axes axes, Axes sharers,
                                       std::span<float> block) {
  const SharedPart part = shared_part(layout(), place, sharers, std::ssize(block));
  blocks_[at(place.processor())] = block.data();
  workers_.meet();
  const std::vector<float*> blocks = blocks_along(place, axes);
  // The others read other parts of this block meanwhile.
  reduce_range(blocks, part.begin(), part.begin() + part.size(), static_cast<int>(place.part(axes)),
               Reduction::sum);
  workers_.meet();
  return part.size() * (std::ssize(blocks) - 1);
}

std::int64_t ThreadBoard::gather_shares(const MeshPlace& place, Axes sharers,
                                        std::span<float> block) {
  const SharedPart part = shared_part(layout(), place, sharers, std::ssize(block));
  blocks_[at(place.processor())] = block.data();
  workers_.meet();
  take_other_parts(blocks_along(place, sharers), part.parts, part.member);
  workers_.meet();
  return std::ssize(block) - part.size();
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
