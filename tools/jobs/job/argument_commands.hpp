// Which of a script's commands are the job, and their words as a shell splits them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/jobs/shell/followed.hpp"

namespace weir {

// "--num_layers" as num-layers.
[[nodiscard]] std::string argument_name(std::string_view word);

// A command that names a model's size is the job; of a file of arguments alone each line is one.
[[nodiscard]] bool names_a_model(const std::vector<std::string>& command);

struct ArgumentCommands {
  std::vector<std::vector<std::string>> commands;
  std::optional<ShellPlace> job;  // where one command is it: its place
};

// What the arguments of a script's commands are taken from: the job where one command is it, else
// everything, with what is only written down in variables.
[[nodiscard]] ArgumentCommands argument_commands(const ShellScript& script,
                                                 std::vector<ShellRemark>& remarks);

}  // namespace weir
