// A launch script followed without running it: assignments, arithmetic, branches, functions and
// loops as far as they are known, and the commands it would start with their words filled in.
//
// Where to start: ScriptRun in script_run.hpp, one method for each kind of command.
//
// Files that it sources are followed where `files` has them, looked for by what of their path is
// known: "$DIR/sizes.sh" is sizes.sh.
//
// Of what is not known here ("$1", files, another program's output) the script's usual course is
// read and said: a branch that would end the script is not taken, an "else" is preferred to its
// "if", a condition that stands alone is taken.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tools/jobs/shell/followed.hpp"
#include "tools/jobs/shell/variables.hpp"

namespace weir {

// Throws InputError for what is not closed, with its line, and for a script without an end.
[[nodiscard]] ShellScript read_script(const std::string& text, const std::string& file,
                                      const ShellEnvironment& environment,
                                      const ShellFiles& files = {});

}  // namespace weir
