// Two texts as a unified diff, which `patch` applies.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace weir {

// Three lines of context; `file` is named as both sides. Empty where the texts are equal.
[[nodiscard]] std::string unified_diff(std::string_view before, std::string_view after,
                                       const std::string& file);

}  // namespace weir
