// What stands in "$(( ))": integers, variables by their bare names, and C's operators.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace weir {

// nullopt where a name is not known, the text is no such expression, or the value has more than 64
// bits. `value` gives a variable's text.
[[nodiscard]] std::optional<std::int64_t> shell_sum(
    std::string_view text,
    const std::function<std::optional<std::string>(std::string_view name)>& value);

}  // namespace weir
