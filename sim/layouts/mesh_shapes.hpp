// What a mesh's shape changes: the same rules on every mesh of so many devices that has their mesh
// dimensions, in every order, since the last one has neighbouring devices.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/layers/network_math.hpp"

namespace weir {

struct ShapedLayout {
  layout::NetworkLayout layout;    // without the mesh dimensions of size 1
  std::optional<std::string> why;  // it cannot be, in words
  NetworkCost cost;                // where it can
};

inline constexpr std::size_t kMostShapedAxes = 4;

// Mesh dimensions that "batch:d,heads:m" names, in that order. Throws std::invalid_argument, in
// words, for rules of another form or over more than kMostShapedAxes.
[[nodiscard]] std::vector<std::string> axes_named(std::string_view rules);

// Legal ones first, fastest first. Throws std::invalid_argument as set_network_rules does.
[[nodiscard]] std::vector<ShapedLayout> on_every_shape(const layout::Network& network,
                                                       std::string_view rules, int devices,
                                                       const NetworkJob& job,
                                                       const Cluster& cluster);

}  // namespace weir
