// Meshes of so many processors: the sizes that their dimensions can have.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "plan/layout/network.hpp"

namespace weir::layout {

// All lists of so many factors, of 1 or more, whose product it is: 1 4, 2 2, 4 1. In order.
[[nodiscard]] std::vector<std::vector<std::int64_t>> ordered_factors(std::int64_t product,
                                                                     std::size_t count);

// The same rules on a mesh that has dimensions of these names, in its own order. Dimensions of size
// 1, over which nothing is split, are left out.
[[nodiscard]] NetworkLayout on_mesh(const NetworkLayout& layout,
                                    const std::vector<MeshDimension>& mesh);

}  // namespace weir::layout
