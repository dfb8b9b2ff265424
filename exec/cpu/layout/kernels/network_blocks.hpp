// Blocks of a network's tensors on the processors of a mesh: sizes, strides, who has what.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "plan/layout/network.hpp"

namespace weir::cpu {

// A processor's block, or a whole tensor; the last dimension is the fastest.
struct BlockShape {
  std::vector<int> dimensions;
  std::vector<std::int64_t> sizes, strides;
  std::int64_t elements = 1;

  BlockShape() = default;
  BlockShape(std::vector<int> of, std::vector<std::int64_t> its_sizes);
  BlockShape(const layout::Network& network, const layout::NetworkLayout& layout,
             const std::vector<int>& of);
  // 0, and 1, where it has no such dimension.
  [[nodiscard]] std::int64_t stride(int dimension) const;
  [[nodiscard]] std::int64_t size(int dimension) const;
  [[nodiscard]] BlockShape without(int dimension) const;  // strides as they were
};

// A place on the mesh: its number, and its coordinate along each mesh dimension.
class MeshPlace {
 public:
  MeshPlace(const layout::NetworkLayout& layout, int processor);
  [[nodiscard]] int processor() const { return processor_; }
  // Which part of a dimension that is split over these is this processor's.
  [[nodiscard]] std::int64_t part(layout::Axes axes) const;
  // Whether it is the first along all of these: of equals, the one that speaks.
  [[nodiscard]] bool first(layout::Axes axes) const;
  // Processors that differ from this one along these axes alone, itself included, ascending.
  [[nodiscard]] std::vector<int> group(layout::Axes axes) const;
  // What a processor's number changes by when it has another part along these axes.
  [[nodiscard]] std::int64_t step_to(layout::Axes axes, std::int64_t part) const;

 private:
  const layout::NetworkLayout* layout_;
  int processor_;
  std::vector<std::int64_t> coordinates_, strides_;
};

// visit(offsets): for each index over `dimensions`, in order, the offset into each of N blocks; of
// sizes those of the first that has the dimension.
template <std::size_t N, class Visit>
void walk(const std::vector<int>& dimensions, const std::array<const BlockShape*, N>& blocks,
          Visit&& visit) {
  const std::size_t depth = dimensions.size();
  std::vector<std::int64_t> sizes(depth, 1), index(depth, 0);
  std::vector<std::array<std::int64_t, N>> strides(depth);
  std::int64_t count = 1;
  for (std::size_t d = 0; d < depth; ++d) {
    for (std::size_t b = 0; b < N; ++b) {
      strides[d][b] = blocks[b]->stride(dimensions[d]);
      sizes[d] = std::max(sizes[d], blocks[b]->size(dimensions[d]));
    }
    count *= sizes[d];
  }
  std::array<std::int64_t, N> offsets{};
  for (std::int64_t i = 0; i < count; ++i) {
    visit(offsets);
    // An odometer: the fastest dimension steps, and a full one turns back and carries.
    for (std::size_t d = depth; d-- > 0;) {
      const bool full = ++index[d] == sizes[d];
      for (std::size_t b = 0; b < N; ++b)
        offsets[b] += full ? -strides[d][b] * (sizes[d] - 1) : strides[d][b];
      if (!full) break;
      index[d] = 0;
    }
  }
}

// visit(offset in all, offset in one) for each number of a step: the same under the dimension of
// time.
template <class Visit>
void each_of_step(const BlockShape& all, const BlockShape& one, int over, std::int64_t time,
                  const Visit& visit) {
  const std::int64_t begin = time * all.stride(over);
  walk<2>(one.dimensions, {&all, &one},
          [&](const std::array<std::int64_t, 2>& at) { visit(begin + at[0], at[1]); });
}

// Each element of a processor's block with its index in the whole tensor.
template <class Visit>
void walk_whole(const layout::Network& network, const layout::NetworkLayout& layout,
                const MeshPlace& place, const std::vector<int>& dimensions, Visit&& visit) {
  const layout::NetworkLayout nowhere{"", {}, std::vector<layout::Axes>(layout.over.size(), 0)};
  const BlockShape block(network, layout, dimensions), whole(network, nowhere, dimensions);
  std::int64_t begin = 0;
  for (const int d : dimensions) {
    begin += place.part(layout.over[static_cast<std::size_t>(d)]) * block.size(d) * whole.stride(d);
  }
  // The whole's strides, a block's sizes.
  BlockShape within = block;
  within.strides = whole.strides;
  walk<2>(dimensions, {&block, &within},
          [&](const std::array<std::int64_t, 2>& at) { visit(at[0], begin + at[1]); });
}

}  // namespace weir::cpu
