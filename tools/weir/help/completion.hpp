// What a shell completes after `weir`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/weir/help/described.hpp"

namespace weir {

// The script for "bash", "zsh" or "fish" that completes `weir`; `common` goes with every
// sub-command. Throws UsageError for another shell.
[[nodiscard]] std::string completion(std::string_view shell,
                                     const std::vector<DescribedCommand>& commands,
                                     const std::vector<DescribedArgument>& common);

}  // namespace weir
