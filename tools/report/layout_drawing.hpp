// What each processor of a mesh holds of each tensor of a network, computes and sends, as a
// picture: a row a tensor, a column a processor, whose block is filled within the whole tensor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "plan/layout/network.hpp"
#include "plan/words/dtype.hpp"
#include "tools/report/vector.hpp"

namespace weir {

inline constexpr std::int64_t kMostDrawnProcessors = 16;  // the first of them, where there are more

// One layout below the other.
[[nodiscard]] Drawing draw_layouts(const layout::Network& network,
                                   const std::vector<layout::NetworkLayout>& layouts, Dtype dtype);
// The same as rows: layout, layer, tensor, processor, the block's first and last index along each
// dimension, elements.
[[nodiscard]] std::string layouts_csv(const layout::Network& network,
                                      const std::vector<layout::NetworkLayout>& layouts);

}  // namespace weir
