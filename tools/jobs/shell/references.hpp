// What a script's words refer to.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace weir {

// Behind the "$..." or "`...`" at `at`.
[[nodiscard]] std::size_t shell_reference_end(std::string_view raw, std::size_t at);

}  // namespace weir
