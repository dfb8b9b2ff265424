// The layout under which the fewest bytes of tensors live at once (costmodel/layers/live_tensors):
// what Mesh-TensorFlow's optimizer looks for, over every mesh and with dimensions over several mesh
// dimensions, which it has not.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "costmodel/layers/live_tensors.hpp"
#include "sim/layouts/layout_search.hpp"

namespace weir {

struct LeastLive {
  layout::NetworkLayout layout;
  Bytes bytes{0};
  std::int64_t examined = 0;  // partial placings that were bounded
};

// Exact: branch and bound over placings, where a tensor is bounded by its block if the dimensions
// that are not placed yet took all mesh dimensions that it has left. Of equal ones the first, on
// the simplest mesh. progress(done, of): after each mesh.
[[nodiscard]] LeastLive least_live(
    const layout::Network& network, Dtype dtype, const LayoutSpace& space,
    const std::function<void(int, int)>& progress = [](int, int) {});

}  // namespace weir
