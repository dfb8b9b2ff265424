// Edits of a script's text that may give an argument another value: guesses, to be tried in turn.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir {

struct ScriptEdit {
  std::string text;          // the whole script
  bool of_variable = false;  // whose other uses change with it
};

struct EditedArgument {
  std::string name;                   // without dashes
  std::optional<std::string> before;  // what the script starts with; "" a flag; nullopt: it is not
                                      // there
  std::optional<std::string> after;   // nullopt: it goes
  bool words = false;                 // the value is words apart, not one with blanks
  // Arguments beside which it may stand where it is new, with their values.
  std::vector<std::pair<std::string, std::string>> beside = {};
};

// The likeliest first: a variable where its value is written, then the place of the argument.
[[nodiscard]] std::vector<ScriptEdit> edits_of(const std::string& text,
                                               const EditedArgument& argument);

// The script with a variable of the process set to a value: where it is assigned, else exported
// before the first command.
[[nodiscard]] std::string with_variable(const std::string& text, std::string_view name,
                                        const std::string& value);
// And with it unset.
[[nodiscard]] std::string without_variable(const std::string& text, std::string_view name);

}  // namespace weir
