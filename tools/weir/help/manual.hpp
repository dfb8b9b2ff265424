// Manual pages of `weir` and its sub-commands (man(7)), made from the tables that --help is made
// of.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tools/weir/help/described.hpp"

namespace weir {

// A text as roff prints it: backslashes, hyphens and quotes as they are, no line of it a request.
[[nodiscard]] std::string roff_text(std::string_view text);

// weir.1: the sub-commands, the options of all, and the topics of help.
[[nodiscard]] std::string manual_of_all(const std::vector<DescribedCommand>& commands,
                                        const std::vector<DescribedArgument>& common);
// weir-NAME.1: its arguments by group, and its examples.
[[nodiscard]] std::string manual_of(const DescribedCommand& command);

// All of them into `folder`, which is made where it is missing. Throws InputError where that
// cannot be written.
void write_manual(const std::filesystem::path& folder,
                  const std::vector<DescribedCommand>& commands,
                  const std::vector<DescribedArgument>& common);

}  // namespace weir
