// Brute force over layouts of a network.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "plan/layout/network.hpp"

namespace weir {

// Every legal placing on the mesh of `one`: each dimension on any set of the mesh's, so (2^axes)^n.
template <class Visit>
void each_legal_placing(const layout::Network& network, layout::NetworkLayout one,
                        const Visit& visit) {
  const std::int64_t sets = std::int64_t{1} << one.mesh.size();
  std::int64_t placings = 1;
  for (std::size_t d = 0; d < network.dimensions.size(); ++d) placings *= sets;
  for (std::int64_t placing = 0; placing < placings; ++placing) {
    one.over.clear();
    std::int64_t left = placing;
    for (std::size_t d = 0; d < network.dimensions.size(); ++d, left /= sets)
      one.over.push_back(static_cast<layout::Axes>(left % sets));
    if (!illegal(network, one)) visit(std::as_const(one));
  }
}

}  // namespace weir
