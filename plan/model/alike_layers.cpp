// Compares each layer with the kinds that came last.
// SPDX-License-Identifier: Apache-2.0
#include "plan/model/alike_layers.hpp"

#include <algorithm>

namespace weir {
namespace {

// As many as a repeated group of layers may have.
constexpr std::size_t kLookedBack = 16;

bool alike(const Layer& a, const Layer& b) {
  return a.shape == b.shape && a.label == b.label && a.treated == b.treated;
}

}  // namespace

AlikeLayers alike_layers(const std::vector<Layer>& layers) {
  AlikeLayers found;
  found.kind.reserve(layers.size());
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const auto is_of = [&](int kind) {
      const int first = found.first[static_cast<std::size_t>(kind)];
      return alike(layers[l], layers[static_cast<std::size_t>(first)]);
    };
    const auto known = static_cast<int>(found.first.size());
    const int oldest = std::max(0, known - static_cast<int>(kLookedBack));
    // The kind of the layer before goes first: most often it is this one's.
    int kind = l > 0 && is_of(found.kind.back()) ? found.kind.back() : known - 1;
    while (kind >= oldest && !is_of(kind)) --kind;
    if (kind < oldest) {
      kind = known;
      found.first.push_back(static_cast<int>(l));
    }
    found.kind.push_back(kind);
  }
  return found;
}

}  // namespace weir
