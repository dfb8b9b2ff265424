// What help ends with: lines to copy, one table for all sub-commands.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace weir {

// "Examples:" and the lines of that sub-command.
[[nodiscard]] std::string examples_of(std::string_view command);

// What the command's exit codes mean (tools/app/shared/exit_code).
[[nodiscard]] std::string exit_codes_text();

}  // namespace weir
