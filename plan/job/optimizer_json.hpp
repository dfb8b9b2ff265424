// An optimizer as it stands in plans and checkpoints.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/job/optimizer.hpp"
#include "plan/text/strict_json.hpp"

namespace weir {

// Keys that came after weir.plan/1 stand only where they say something, so that older files keep
// their bytes.
[[nodiscard]] Json optimizer_json(const Optimizer& optimizer);
// Throws InputError.
[[nodiscard]] Optimizer parse_optimizer(JsonObject object);

}  // namespace weir
