// The sub-commands, their options, and the words that an option takes, as the tables of fields have
// them: what completions (tools/weir/help/completion), manual pages (tools/weir/help/manual) and
// refusals know.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "tools/app/shared/field.hpp"

namespace weir {

// An argument as it is written: of a field, or of the command itself.
struct DescribedArgument {
  std::vector<std::string> names;  // "-K", "--pp"; empty for one by place
  std::string help;
  bool takes_value = true;
  std::vector<std::string> choices = {};      // of its value; empty: a file or anything
  std::vector<std::string> names_known = {};  // that a value may be, where it may be a file as well
  // What --help says beside: its heading, the kind of value ("INT"), the range of a number ("0 to
  // 64"), what it is where it is not given; of one by place what it is called.
  std::string group = {}, value = {}, within = {}, unsaid = {}, place = {};
  bool required = false;
  bool several = false;                    // values, one behind the other
  std::vector<std::string> excludes = {};  // options that it does not go with
};
struct DescribedCommand {
  std::string name, summary;
  std::vector<DescribedArgument> arguments;
};

// The words of --format.
[[nodiscard]] const std::vector<std::string>& output_formats();

// A field as the option that CLI11 has made of it.
[[nodiscard]] DescribedArgument described(const app::Field& field, const CLI::Option& option);
// The options that an app has itself: those that go with every sub-command.
[[nodiscard]] std::vector<DescribedArgument> options_of(const CLI::App& app);
[[nodiscard]] std::vector<std::string> command_names(const CLI::App& app);

}  // namespace weir
