// Cuts lines into cells.
// SPDX-License-Identifier: Apache-2.0
#include "plan/text/cells.hpp"

namespace weir {

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::string without_byte_order_mark(const std::string& text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

std::vector<std::string> split_cells(const std::string& line) {
  std::vector<std::string> cells;
  std::string cell;
  bool quoted = false, any = false;
  const auto end_cell = [&] {
    cells.push_back(any ? cell : std::string(trimmed(cell)));
    cell.clear();
    any = false;
  };
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    const bool doubled = quoted && c == '"' && i + 1 < line.size() && line[i + 1] == '"';
    if (doubled) {
      cell += '"';
      ++i;
    } else if (c == '"' && (quoted || trimmed(cell).empty())) {
      if (!quoted) cell.clear();  // blanks before the quote
      quoted = !quoted;
      any = true;
    } else if (c == ',' && !quoted) {
      end_cell();
    } else if (!any || quoted) {  // what follows a closing quote is blanks
      cell += c;
    }
  }
  if (any || !cell.empty()) end_cell();  // what ends in a comma has no cell behind it
  return cells;
}

}  // namespace weir
