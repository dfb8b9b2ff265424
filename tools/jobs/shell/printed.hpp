// What echo, printf and seq put out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tools/jobs/bounds/budget.hpp"

namespace weir {

// printf of words[first], the format, and what follows it: %s %d %i %b %%, \n and \t, the format
// again while words are left. nullopt for another conversion.
[[nodiscard]] std::optional<std::string> shell_printf(const std::vector<std::string>& words,
                                                      std::size_t first, Budget& budget);

// What a command of the three prints, its last line's end included; nullopt for another command.
[[nodiscard]] std::optional<std::string> shell_output(const std::vector<std::string>& command,
                                                      Budget& budget);

}  // namespace weir
