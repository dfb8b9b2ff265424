// Reading what others have, between two meetings.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/layout/network_board.hpp"

#include <algorithm>

#include "plan/words/indexed.hpp"

namespace weir::cpu {

using layout::Axes;

std::int64_t Board::all_reduce(const MeshPlace& place, Axes axes, float* block, std::int64_t n,
                               bool largest) {
  const std::vector<int> group = place.group(axes);
  const auto members = static_cast<std::int64_t>(group.size());
  if (members == 1) return 0;
  const auto begin_of = [&](std::int64_t member) { return n * member / members; };
  const auto self =
      static_cast<std::int64_t>(std::ranges::find(group, place.processor()) - group.begin());
  // 1. Every member says where its block is.
  blocks_[at(place.processor())] = block;
  workers_.meet();
  // 2. Each sums its own part of all blocks. The others read no part of this block but theirs.
  for (std::int64_t i = begin_of(self); i < begin_of(self + 1); ++i) {
    float sum = blocks_[at(group[0])][i];
    for (std::size_t m = 1; m < group.size(); ++m) {
      const float other = blocks_[at(group[m])][i];
      sum = largest ? std::max(sum, other) : sum + other;
    }
    block[i] = sum;
  }
  workers_.meet();
  // 3. Each takes the parts that the others have summed, and nobody goes on before all have.
  for (std::int64_t m = 0; m < members; ++m) {
    if (m == self) continue;
    std::copy(blocks_[at(group[at(m)])] + begin_of(m), blocks_[at(group[at(m)])] + begin_of(m + 1),
              block + begin_of(m));
  }
  workers_.meet();
  const std::int64_t own = begin_of(self + 1) - begin_of(self);
  return own * (members - 1) + (n - own);
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
