// A launch script followed without running it: assignments, arithmetic, branches, functions and
// loops as far as they are known, and the commands it would start with their words filled in.
//
// Where to start: ScriptRun in script.cpp, one method for each kind of command.
//
// Of what is not known here ("$1", files, another program's output) the script's usual course is
// read and said: a branch that would end the script is not taken, an "else" is preferred to its
// "if", a condition that stands alone is taken.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plan/import/shell/variables.hpp"

namespace weir {

struct ShellRemark {
  int line = 0;  // 0: of the whole script
  std::string text;
};

struct ShellScript {
  std::vector<std::vector<std::string>> commands;
  // Words of variables that hold arguments and that no command uses.
  std::vector<std::vector<std::string>> unused;
  std::vector<ShellRemark> remarks;
  std::vector<std::string> taken;           // variables that the environment gave, sorted
  std::optional<std::int64_t> nodes, gpus;  // #SBATCH: nodes, and devices of all
};

// Throws InputError for what is not closed, with its line, and for a script without an end.
[[nodiscard]] ShellScript read_script(const std::string& text, const std::string& file,
                                      const ShellEnvironment& environment);

}  // namespace weir
