// What all parts of a script share while it is followed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/jobs/shell/blocks.hpp"
#include "tools/jobs/shell/followed.hpp"
#include "tools/jobs/shell/variables.hpp"

namespace weir {

inline constexpr int kDeepestRun = 24;  // functions, commands in quotes and files

using ShellStatus = std::optional<bool>;  // of a command, where it is known

class ScriptRun;

// A function's body, in the text that defines it.
struct ShellFunction {
  ScriptRun* in = nullptr;
  ShellRange body;
};

// What all parts of a script share, those in quotes and in other files too.
struct ScriptState {
  ShellVariables& variables;
  const ShellFiles& files;
  const std::string& file;
  ShellScript& out;
  ShellPlace place = {};  // of the command of a file that is being followed
  int steps = 0;
  int depth = 0;
  std::deque<std::vector<std::string>> parameters = {};  // that "set --" and shift gave
  std::map<std::string, ShellFunction, std::less<>> functions = {};
  std::deque<std::string> names = {};              // of other files
  std::vector<std::string> following = {};         // scripts that are being followed
  std::vector<std::unique_ptr<ScriptRun>> others;  // whose functions are still called
  bool ended = false, returned = false;            // by exit, by return
  std::int64_t left = 0;                           // loops that break or continue still leaves
  bool again = false;                              // the last of them goes on
  bool unfollowed = false;  // a file was sourced whose text is not known: it may set anything
  bool printing = false;    // within "$(...)", whose commands print and start nothing
};

}  // namespace weir
