// Groups of experts out of which a token's are drawn.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "plan/model/layer_shape.hpp"

namespace weir {

// Why a token's experts cannot be drawn out of the block's groups; nullopt: they can, or there are
// none.
[[nodiscard]] std::optional<std::string> cannot_group(const TransformerShape& block);

}  // namespace weir
