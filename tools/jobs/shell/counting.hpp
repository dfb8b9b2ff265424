// (( )), let and the head of "for ((...))": sums that set variables.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "tools/jobs/shell/variables.hpp"

namespace weir {

// Sums and "NAME = sum", "NAME += sum" and its sisters, "NAME++", "--NAME", one behind the other
// with ',' between: done in turn, and the value of the last. What is not known leaves its variable
// not known.
std::optional<std::int64_t> shell_count(std::string_view text, ShellVariables& variables);

}  // namespace weir
