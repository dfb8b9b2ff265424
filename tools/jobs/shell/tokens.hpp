// The tokens of a shell script: words as they are written, quotes and all, and what separates
// commands. Nothing is filled in here. Comments are gone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weir {

enum class ShellKind : std::uint8_t {
  word,
  array,      // NAME=( elements ), NAME+=( elements ): `text` is what stands before the bracket
  condition,  // [[ elements ]]
  here,  // a here-document's text; one element where its end was quoted, and nothing is filled in
  sum,   // (( text ))
  operation  // newline ; ;; & && | || ( )
};

struct ShellToken {
  ShellKind kind = ShellKind::word;
  std::string text;
  std::vector<std::string> elements;
  int line = 1;
  bool first = false;  // where a command begins, so that "if" is no argument
};

// Throws InputError for a quote or a bracket that is not closed.
[[nodiscard]] std::vector<ShellToken> shell_tokens(std::string_view text, const std::string& file);

// Behind what stands at `at`: a quoted text, "${...}", "$(...)" or "`...`", with all that is inside
// it; npos where it is not closed.
[[nodiscard]] std::size_t shell_end_of(std::string_view text, std::size_t at);

// Letters, digits and '_' at the beginning, the first no digit: how many.
[[nodiscard]] std::size_t shell_name_length(std::string_view text);

}  // namespace weir
