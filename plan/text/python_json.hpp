// What Python's json module writes and JSON does not have.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace weir {

// Infinity, -Infinity and NaN outside of texts become null: a number that is none says nothing.
[[nodiscard]] std::string without_python_numbers(const std::string& text);

}  // namespace weir
