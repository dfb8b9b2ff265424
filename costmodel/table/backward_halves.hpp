// Whether costs tell the two halves of a backward apart. A framework may not (null in the file, not
// a number here); then no schedule that divides its backwards can be priced.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "costmodel/table/layer_costs.hpp"

namespace weir {

[[nodiscard]] bool halves_known(const LayerCost& cost);

// The first layer of which they are not known, in a sentence; none where all are.
[[nodiscard]] std::optional<std::string> unknown_halves(const LayerCosts& known);

}  // namespace weir
