// The key `anchor` of weir.costs/1.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "costmodel/table/anchor.hpp"
#include "plan/text/strict_json.hpp"

namespace weir {

[[nodiscard]] nlohmann::ordered_json to_json(const CostAnchor& anchor);
// Throws InputError.
[[nodiscard]] CostAnchor parse_anchor(JsonObject object);

}  // namespace weir
