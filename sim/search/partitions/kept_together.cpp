// Finds those layers by their shapes.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/partitions/kept_together.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <variant>

namespace weir {
namespace {

// The first of the blocks that predict and the last, which stand one behind the other; no block:
// {0, 0}, between which nothing lies.
std::pair<int, int> predicting(const Model& model) {
  std::pair<int, int> range{0, 0};
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    const auto* block = std::get_if<TransformerShape>(&model.layers[l].shape);
    if (block == nullptr || !predicts(*block)) continue;
    if (range.first == 0) range.first = static_cast<int>(l);
    range.second = static_cast<int>(l);
  }
  return range;
}

bool parts(std::pair<int, int> range, int boundary) {
  return boundary > range.first && boundary <= range.second;
}

}  // namespace

bool keeps_together(const Model& model, std::span<const int> boundaries) {
  const auto range = predicting(model);
  return std::ranges::none_of(boundaries, [&](int at) { return parts(range, at); });
}

std::vector<int> kept_together(const Model& model, std::vector<int> boundaries) {
  const auto range = predicting(model);
  const std::vector<int> before = boundaries;
  for (std::size_t b = boundaries.size(); b-- > 0;) {
    if (parts(range, boundaries[b])) boundaries[b] = range.first;
    // Every stage has a layer.
    if (b + 1 < boundaries.size() && boundaries[b] >= boundaries[b + 1])
      boundaries[b] = boundaries[b + 1] - 1;
  }
  return boundaries.empty() || boundaries.front() > 0 ? boundaries : before;
}

}  // namespace weir
