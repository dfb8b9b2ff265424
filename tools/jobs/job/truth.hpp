// What a word of a configuration says of a flag, as YAML and Python write it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace weir {

[[nodiscard]] constexpr bool says_true(std::string_view word) {
  return word == "true" || word == "True" || word == "TRUE";
}
[[nodiscard]] constexpr bool says_false(std::string_view word) {
  return word == "false" || word == "False" || word == "FALSE";
}

}  // namespace weir
