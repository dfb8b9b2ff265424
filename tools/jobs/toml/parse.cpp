// Texts that toml++ would not survive are refused before it sees them.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/toml/parse.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "plan/words/error.hpp"

namespace weir {
namespace {

// The line of the first character beyond ASCII that is in no string and no comment, where TOML has
// none; 0: there is none. toml++ 3.3 asks of some whether they are blanks, and its table of blanks
// is undefined behaviour for them.
int beyond_ascii(const std::string& text) {
  const auto newlines = [&text](std::size_t from, std::size_t to) {
    return static_cast<int>(std::count(text.begin() + static_cast<std::ptrdiff_t>(from),
                                       text.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
  };
  // Behind the string that begins at `at`, or the end of its line where it is not closed.
  const auto behind = [&text](std::size_t at) {
    const char quote = text[at];
    const std::string triple(3, quote);
    const bool lines = text.compare(at, 3, triple) == 0;
    for (std::size_t i = at + (lines ? 3 : 1); i < text.size(); ++i) {
      if (text[i] == '\\' && quote == '"') {
        ++i;
      } else if (lines ? text.compare(i, 3, triple) == 0 : text[i] == quote || text[i] == '\n') {
        return i + (lines ? 3 : 1);
      }
    }
    return text.size();
  };
  int line = 1;
  for (std::size_t at = text.starts_with("\xEF\xBB\xBF") ? 3 : 0; at < text.size();) {
    std::size_t next = at + 1;
    if (text[at] == '#') {
      next = std::min(text.find('\n', at), text.size());
    } else if (text[at] == '"' || text[at] == '\'') {
      next = std::min(behind(at), text.size());
    } else if (static_cast<unsigned char>(text[at]) >= 0x80) {
      return line;
    }
    line += newlines(at, next);
    at = next;
  }
  return 0;
}

}  // namespace

toml::table parse_toml(const std::string& text, const std::string& file) {
  if (const int line = beyond_ascii(text))
    throw InputError(file, fmt::format("line {}", line),
                     "expected ASCII outside of strings and comments");
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    throw InputError(file, fmt::format("line {}", error.source().begin.line),
                     fmt::format("no valid TOML: {}", error.description()));
  } catch (const TomlFault& fault) {
    throw InputError(file, "", fmt::format("no valid TOML: does not hold: {}", fault.what()));
  }
}

}  // namespace weir
