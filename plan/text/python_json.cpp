// One pass that knows texts from what stands between them.
// SPDX-License-Identifier: Apache-2.0
#include "plan/text/python_json.hpp"

#include <string_view>

namespace weir {

std::string without_python_numbers(const std::string& text) {
  std::string plain;
  bool quoted = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = std::string_view(text).substr(at);
    std::size_t length = 0;
    for (const std::string_view word : {"-Infinity", "Infinity", "NaN"}) {
      if (!quoted && length == 0 && rest.starts_with(word)) length = word.size();
    }
    if (length > 0) {
      plain += "null";
      at += length;
      continue;
    }
    if (rest[0] == '"') quoted = !quoted;
    // An escaped quote ends no text.
    if (quoted && rest[0] == '\\' && rest.size() > 1) plain += text[at++];
    plain += text[at++];
  }
  return plain;
}

}  // namespace weir
