// Whether "[ ... ]", "test ..." and "[[ ... ]]" hold.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/jobs/shell/variables.hpp"

namespace weir {

// The raw words between the brackets. nullopt where it depends on what is not known here: files,
// variables that nothing sets, the script's own arguments. `patterns`: the right of "==" is one, as
// in "[[ ]]".
[[nodiscard]] std::optional<bool> shell_condition(const std::vector<std::string>& raw,
                                                  ShellVariables& variables, bool patterns);

}  // namespace weir
