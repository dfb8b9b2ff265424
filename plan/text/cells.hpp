// Text as tables have it: cells between commas, and numbers that are the whole of a cell.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weir {

// Without the blanks around it.
[[nodiscard]] std::string_view trimmed(std::string_view text);

// Without the byte order mark that spreadsheets put before a CSV in UTF-8.
[[nodiscard]] std::string without_byte_order_mark(const std::string& text);

// The cells of a line of CSV, trimmed; between double quotes commas belong to the cell, and two
// quotes are one (RFC 4180).
[[nodiscard]] std::vector<std::string> split_cells(const std::string& line);

// The number that a text is, as std::from_chars reads it; nullopt where it is anything else or
// more.
template <class Number>
[[nodiscard]] std::optional<Number> whole_number(std::string_view text) {
  Number number{};
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  if (error != std::errc{} || end != last) return std::nullopt;
  return number;
}

}  // namespace weir
