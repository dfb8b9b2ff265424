// How many tokens a whole training has, of which forecasts then say the hours and the money.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "tools/app/shared/field.hpp"

namespace weir {
struct Plan;
}

namespace weir::app {

[[nodiscard]] Field train_tokens_field(std::optional<double>& tokens);

// Throws UsageError where tokens are asked about that are no whole number, or the plan's samples
// have none.
void require_tokens(const std::optional<double>& tokens, const Plan& plan);

}  // namespace weir::app
