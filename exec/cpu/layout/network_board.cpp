// Reading what others have, between two meetings.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/layout/network_board.hpp"

#include <algorithm>

#include "plan/words/indexed.hpp"

namespace weir::cpu {

using layout::Axes;

std::int64_t Board::all_reduce(const MeshPlace& place, Axes axes, float* block, std::int64_t n,
                               Reduction reduction) {
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

namespace {

// Of one index along a dimension of the target: where on the mesh, and where in the block there.
struct Origin {
  std::int64_t processor, offset;
};

}  // namespace

std::int64_t Board::relocate(const MeshPlace& place, const std::vector<int>& from,
                             const std::vector<int>& to, Axes pending, float* in, float* out) {
  const BlockShape a(network_, layout_, from), b(network_, layout_, to);
  const Axes source = axes_of(layout_, from), scattered = pending & axes_of(layout_, to);
  const std::int64_t self = place.processor();
  // Where nothing that moves says otherwise, a processor's own block is read.
  const std::int64_t base = self - place.step_to(source, place.part(source)) -
                            place.step_to(scattered, place.part(scattered));
  std::vector<std::vector<Origin>> origins(to.size());
  for (std::size_t d = 0; d < to.size(); ++d) {
    const std::int64_t begin = place.part(layout_.over[at(to[d])]) * b.sizes[d];
    for (std::int64_t i = begin; i < begin + b.sizes[d]; ++i) {
      origins[d].push_back({place.step_to(layout_.over[at(from[d])], i / a.sizes[d]),
                            i % a.sizes[d] * a.strides[d]});
    }
  }
  std::vector<std::int64_t> summands;
  for (std::int64_t p = 0; p < members(layout_, scattered); ++p)
    summands.push_back(place.step_to(scattered, p));
  blocks_[at(place.processor())] = in;
  workers_.meet();
  std::int64_t read = 0;
  std::vector<std::size_t> index(to.size(), 0);
  for (std::int64_t i = 0; i < b.elements; ++i) {
    std::int64_t processor = base, offset = 0;
    for (std::size_t d = 0; d < to.size(); ++d) {
      processor += origins[d][index[d]].processor;
      offset += origins[d][index[d]].offset;
    }
    float sum = 0;
    for (const std::int64_t summand : summands) {
      sum += blocks_[at(processor + summand)][offset];
      read += processor + summand == self ? 0 : 1;
    }
    out[i] = sum;
    for (std::size_t d = to.size(); d-- > 0;) {
      if (++index[d] < origins[d].size()) break;
      index[d] = 0;
    }
  }
  workers_.meet();
  return read;
}

}  // namespace weir::cpu
