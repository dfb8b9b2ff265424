// Where arguments and assignments stand in a script's text, so that they can be edited there.
// Comments hold none.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace weir {

struct TextPart {
  std::size_t begin = 0, end = 0;
  [[nodiscard]] bool empty() const { return begin == end; }
  [[nodiscard]] std::string_view of(std::string_view text) const {
    return text.substr(begin, end - begin);
  }
};

struct ArgumentPlace {
  TextPart name;   // with its dashes
  TextPart value;  // as it is written, quotes and all; empty: none follows
};

class ScriptPlaces {
 public:
  explicit ScriptPlaces(std::string_view text);

  // Of "--name", '-' and '_' alike, with so many values behind it.
  [[nodiscard]] std::vector<ArgumentPlace> arguments(std::string_view name,
                                                     std::size_t values) const;
  // What stands behind "NAME=".
  [[nodiscard]] std::vector<TextPart> assignments(std::string_view name) const;
  // Words that end in .py and begin no option: the programs that are started.
  [[nodiscard]] std::vector<TextPart> programs() const;
  // The line without its end.
  [[nodiscard]] TextPart line_of(std::size_t at) const;
  [[nodiscard]] bool in_double_quotes(std::size_t at) const { return marks_[at] == kQuoted; }
  // Where the first command begins: behind the first lines of comments and blanks.
  [[nodiscard]] std::size_t first_command() const;

 private:
  static constexpr char kPlain = 0, kQuoted = 1, kComment = 2;
  [[nodiscard]] std::size_t value_end(std::size_t at) const;
  [[nodiscard]] std::size_t value_begin(std::size_t at) const;

  std::string_view text_;
  std::vector<char> marks_;  // of each byte, and one behind the last
};

}  // namespace weir
