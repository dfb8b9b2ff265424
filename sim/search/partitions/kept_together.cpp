// Finds those layers by their shapes.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/partitions/kept_together.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <variant>

namespace weir {

KeptTogether::KeptTogether(const Model& model, const Stack& stack)
    : layers_(static_cast<int>(model.layers.size())) {
  for (int l = 0; l < layers_; ++l) {
    const LayerShape& shape = model.layers[static_cast<std::size_t>(l)].shape;
    // The last norm that other layers follow is the final one: of blocks with norms of their own
    // those are no layers.
    const bool follows = l > 0 && l + 1 < layers_;
    if (!stack.lone_norm && follows && std::holds_alternative<NormShape>(shape)) norm_ = l;
    const auto* block = std::get_if<TransformerShape>(&shape);
    if (block == nullptr || !predicts(*block)) continue;
    if (first_ == 0) first_ = l;
    last_ = l;
  }
}

bool KeptTogether::leaves_norm(std::span<const int> boundaries, std::size_t b) const {
  return norm_ > 0 && boundaries[b] == norm_ && b + 1 < boundaries.size() &&
         boundaries[b + 1] == norm_ + 1;
}

bool KeptTogether::keeps(std::span<const int> boundaries) const {
  for (std::size_t b = 0; b < boundaries.size(); ++b)
    if (parts(boundaries[b]) || leaves_norm(boundaries, b)) return false;
  return true;
}

std::vector<int> KeptTogether::kept(std::vector<int> boundaries) const {
  const std::vector<int> before = boundaries;
  for (std::size_t b = boundaries.size(); b-- > 0;) {
    if (parts(boundaries[b])) boundaries[b] = first_;
    // Every stage has a layer.
    if (b + 1 < boundaries.size() && boundaries[b] >= boundaries[b + 1])
      boundaries[b] = boundaries[b + 1] - 1;
    // With the last block, as the stage behind is the head's.
    if (leaves_norm(boundaries, b)) --boundaries[b];
  }
  return boundaries.empty() || boundaries.front() > 0 ? boundaries : before;
}

std::optional<std::string> KeptTogether::too_many(int stages) const {
  // The norm shares its stage with a layer, and the blocks that predict theirs with each other.
  const int most = layers_ - (norm_ > 0 ? 1 : 0) - (last_ - first_);
  if (!any() || stages <= most) return std::nullopt;
  return fmt::format("K*v = {} parts layers that stand on one stage: expected at most {}", stages,
                     most);
}

}  // namespace weir
