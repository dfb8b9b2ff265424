// The sub-commands, their options, and the words that an option takes, as the tables of fields have
// them: what a shell completes after `weir`, and what the manual tells (tools/weir/manual).
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
  std::vector<std::string> choices = {};  // of its value; empty: a file or anything
  // What --help says beside: its heading, the kind of value ("INT"), the range of a number ("0 to
  // 64"), what it is where it is not given; of one by place what it is called.
  std::string group = {}, value = {}, within = {}, unsaid = {}, place = {};
  bool required = false;
  bool several = false;                    // values, one behind the other
  std::vector<std::string> excludes = {};  // options that it does not go with
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
