// Cuts lines into cells.
// SPDX-License-Identifier: Apache-2.0
#include "plan/text/cells.hpp"

#include <sstream>

namespace weir {

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::vector<std::string> split_cells(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream in(line);
  for (std::string cell; std::getline(in, cell, ',');) cells.emplace_back(trimmed(cell));
  return cells;
}

}  // namespace weir
