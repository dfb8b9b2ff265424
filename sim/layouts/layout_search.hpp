// The best layout of a network: over every mesh of so many devices and every rule that is legal on
// it, the least time of a step under a device's memory, and the front of time and memory.
//
// Exact. A dimension may be on any set of mesh dimensions, and so may what the optimizer keeps of
// the weights, with their gradients or without. Costs are sums over layers, and a layer's depends
// on its own dimensions alone; so for each mesh, each division of what is kept and each placing of
// the dimensions that several layers have, the layers are searched apart, each keeps the placings
// that no other beats in both time and memory, and the sums of those are all that can be on the
// front.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "costmodel/layers/network_math.hpp"

namespace weir {

struct LayoutSpace {
  int devices = 1;
  int most_axes = 3;  // mesh dimensions
  // Rules for `optimizer` and `gradients` (NetworkLayout) too; else nothing of them is divided.
  bool divided_state = true;
};

struct FoundLayout {
  layout::NetworkLayout layout;
  NetworkCost cost;
};

// The front of one mesh: what its shape is worth when its rules are the best for it.
struct MeshFront {
  std::vector<layout::MeshDimension> mesh;
  std::vector<FoundLayout> front;  // fastest first
  [[nodiscard]] const FoundLayout* best(Bytes memory) const;
};

struct FoundLayouts {
  std::vector<FoundLayout> front;  // fastest first: each next is slower and smaller
  std::vector<MeshFront> by_mesh;  // fewest dimensions first
  std::int64_t meshes = 0;
  std::int64_t examined = 0;  // placings of one layer that were priced
  // The fastest that is within a device's memory; none: nothing is.
  [[nodiscard]] const FoundLayout* best(Bytes memory) const;
};

// Ordered factorisations of `devices` into 1 to `most_axes` factors of 2 or more, fewest factors
// first; of 1 device one mesh of no dimension.
[[nodiscard]] std::vector<std::vector<std::int64_t>> meshes(int devices, int most_axes);

// The `count` fastest of all legal layouts, whatever their memory, one of several that cost the
// same; found one by one, so nothing where there are too many of them (kMostCompared).
inline constexpr double kMostCompared = 1 << 20;
[[nodiscard]] std::optional<std::vector<FoundLayout>> fastest_layouts(
    const layout::Network& network, const NetworkJob& job, const Cluster& cluster,
    const LayoutSpace& space, std::size_t count);

// Precondition: the cluster has the devices, and its device a rate for the number format.
[[nodiscard]] FoundLayouts search_layouts(const layout::Network& network, const NetworkJob& job,
                                          const Cluster& cluster, const LayoutSpace& space);

}  // namespace weir
