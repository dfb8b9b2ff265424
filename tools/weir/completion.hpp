// What a shell completes after `weir`: the sub-commands, their options, and the words that an
// option takes, made from the tables of fields.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/app/shared/field.hpp"

namespace weir {

// An argument as it is written: of a field, or of the command itself.
struct CompletedArgument {
  std::vector<std::string> names;  // "-K", "--pp"; empty for one by place
  std::string help;
  bool takes_value = true;
  std::vector<std::string> choices;  // of its value; empty: a file or anything
};
struct CompletedCommand {
  std::string name, summary;
  std::vector<CompletedArgument> arguments;
};

[[nodiscard]] CompletedArgument completed(const app::Field& field);

// The script for "bash", "zsh" or "fish" that completes `weir`; `common` goes with every
// sub-command. Throws UsageError for another shell.
[[nodiscard]] std::string completion(std::string_view shell,
                                     const std::vector<CompletedCommand>& commands,
                                     const std::vector<CompletedArgument>& common);

}  // namespace weir
