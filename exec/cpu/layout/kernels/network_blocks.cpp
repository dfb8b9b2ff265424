// Row-major blocks, row-major meshes.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/layout/kernels/network_blocks.hpp"

#include <algorithm>
#include <utility>

#include "plan/words/indexed.hpp"

namespace weir::cpu {

using layout::Axes;

namespace {

std::vector<std::int64_t> block_sizes(const layout::Network& network,
                                      const layout::NetworkLayout& layout,
                                      const std::vector<int>& of) {
  std::vector<std::int64_t> sizes;
  for (const int d : of)
    sizes.push_back(network.dimensions[at(d)].size / members(layout, layout.over[at(d)]));
  return sizes;
}

}  // namespace

BlockShape::BlockShape(const layout::Network& network, const layout::NetworkLayout& layout,
                       const std::vector<int>& of)
    : BlockShape(of, block_sizes(network, layout, of)) {}

BlockShape::BlockShape(std::vector<int> of, std::vector<std::int64_t> its_sizes)
    : dimensions(std::move(of)), sizes(std::move(its_sizes)), strides(sizes.size(), 1) {
  for (std::size_t d = sizes.size(); d-- > 1;) strides[d - 1] = strides[d] * sizes[d];
  for (const std::int64_t size : sizes) elements *= size;
}

std::int64_t BlockShape::stride(int dimension) const {
  const auto found = std::ranges::find(dimensions, dimension);
  return found == dimensions.end() ? 0 : strides[at(found - dimensions.begin())];
}

std::int64_t BlockShape::size(int dimension) const {
  const auto found = std::ranges::find(dimensions, dimension);
  return found == dimensions.end() ? 1 : sizes[at(found - dimensions.begin())];
}

BlockShape BlockShape::without(int dimension) const {
  BlockShape left;
  for (std::size_t d = 0; d < dimensions.size(); ++d) {
    if (dimensions[d] == dimension) continue;
    left.dimensions.push_back(dimensions[d]);
    left.sizes.push_back(sizes[d]);
    left.strides.push_back(strides[d]);
    left.elements *= sizes[d];
  }
  return left;
}

MeshPlace::MeshPlace(const layout::NetworkLayout& layout, int processor)
    : layout_(&layout), processor_(processor) {
  coordinates_.assign(layout.mesh.size(), 0);
  strides_.assign(layout.mesh.size(), 1);
  std::int64_t stride = 1;
  for (std::size_t m = layout.mesh.size(); m-- > 0;) {
    strides_[m] = stride;
    coordinates_[m] = processor / stride % layout.mesh[m].size;
    stride *= layout.mesh[m].size;
  }
}

std::int64_t MeshPlace::part(Axes axes) const {
  std::int64_t part = 0;
  for (std::size_t m = 0; m < coordinates_.size(); ++m) {
    if ((axes >> m & 1U) != 0) part = part * layout_->mesh[m].size + coordinates_[m];
  }
  return part;
}

bool MeshPlace::first(Axes axes) const { return part(axes) == 0; }

std::vector<int> MeshPlace::group(Axes axes) const {
  std::vector<int> group;
  const std::int64_t base = processor_ - step_to(axes, part(axes));
  for (std::int64_t p = 0; p < members(*layout_, axes); ++p)
    group.push_back(static_cast<int>(base + step_to(axes, p)));
  return group;
}

std::int64_t MeshPlace::step_to(Axes axes, std::int64_t part) const {
  std::int64_t step = 0;
  // As `part` made it: the last mesh dimension is the fastest.
  for (std::size_t m = coordinates_.size(); m-- > 0;) {
    if ((axes >> m & 1U) == 0) continue;
    step += part % layout_->mesh[m].size * strides_[m];
    part /= layout_->mesh[m].size;
  }
  return step;
}

}  // namespace weir::cpu
