// What a script's words refer to.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weir {

// Behind the "$..." or "`...`" at `at`.
[[nodiscard]] std::size_t shell_reference_end(std::string_view raw, std::size_t at);

// What of a path follows the last part that is not filled in: "$(pwd)/a/b.sh" is a/b.sh. Empty
// where that begins within a name.
[[nodiscard]] std::string shell_known_path(std::string_view filled);

// Whether a word that was filled in is nothing but one part that was not: "${X}", "$(date)".
[[nodiscard]] bool shell_is_open(std::string_view filled);

}  // namespace weir
