// Looks for times that are no numbers.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/table/backward_halves.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace weir {

bool halves_known(const LayerCost& cost) {
  return std::ranges::none_of(cost.by_batch, [](const auto& at) {
    return std::isnan(at.second.i.count()) || std::isnan(at.second.w.count());
  });
}

std::optional<std::string> unknown_halves(const LayerCosts& known) {
  const auto layers = static_cast<int>(known.model().layers.size());
  const LayerCost* last = nullptr;
  for (int l = 0; l < layers; ++l) {
    const LayerCost* cost = known.match(l).cost;
    if (cost == std::exchange(last, cost)) continue;  // most layers are of the kind before
    if (cost != nullptr && !halves_known(*cost)) {
      return fmt::format("I and W of {} are not told apart by these costs",
                         known.model().layers[static_cast<std::size_t>(l)].name);
    }
  }
  return std::nullopt;
}

}  // namespace weir
