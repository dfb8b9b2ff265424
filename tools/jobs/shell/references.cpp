// Where "$...", "${...}", "$(...)" and "`...`" end, and what of a text they leave known.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/shell/references.hpp"

#include <algorithm>

#include "tools/jobs/shell/tokens.hpp"

namespace weir {

std::size_t shell_reference_end(std::string_view raw, std::size_t at) {
  const std::string_view rest = raw.substr(at);
  if (rest.starts_with("${") || rest.starts_with("$(") || rest.starts_with("$[") ||
      rest[0] == '`') {
    const std::size_t end = shell_end_of(raw, at);
    return end == std::string_view::npos ? raw.size() : end;
  }
  const std::size_t length = shell_name_length(rest.substr(1));
  const bool special = length == 0 && rest.size() > 1 &&
                       std::string_view("0123456789#@*?$!").find(rest[1]) != rest.npos;
  return at + 1 + length + (special ? 1 : 0);
}

std::string shell_known_path(std::string_view filled) {
  std::size_t known = 0;
  for (std::size_t at = 0; at < filled.size();) {
    const bool opens = filled[at] == '$' || filled[at] == '`';
    at = opens ? std::max(shell_reference_end(filled, at), at + 1) : at + 1;
    if (opens) known = at;
  }
  std::string_view rest = filled.substr(std::min(known, filled.size()));
  if (known == 0) return std::string(rest);
  if (!rest.starts_with('/')) return {};
  return std::string(rest.substr(std::min(rest.find_first_not_of('/'), rest.size())));
}

bool shell_is_open(std::string_view filled) {
  const bool opens = filled.size() > 1 && (filled[0] == '$' || filled[0] == '`');
  return opens && shell_reference_end(filled, 0) == filled.size();
}

}  // namespace weir
