// Which layers of a model are alike in all but their names. Models repeat their blocks, so what
// follows from a layer is found once for all that are like it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "plan/model/model.hpp"

namespace weir {

struct AlikeLayers {
  std::vector<int> kind;   // by layer, from 0 in the order in which kinds come
  std::vector<int> first;  // by kind, its first layer

  [[nodiscard]] int kind_of(int layer) const { return kind[static_cast<std::size_t>(layer)]; }
};

// Layers of one kind have equal shapes, labels and treatments. Equal ones may be of two kinds where
// more than a few others stand between them, so that a model whose layers all differ takes no
// longer.
[[nodiscard]] AlikeLayers alike_layers(const std::vector<Layer>& layers);

}  // namespace weir
