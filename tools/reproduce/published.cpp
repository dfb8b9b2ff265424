// Reads published tables and their printed numbers.
// SPDX-License-Identifier: Apache-2.0
#include "tools/reproduce/published.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <sstream>

#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

// A line's cells. Within quotes a comma is a character, and two quotes are one (RFC 4180).
std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (std::size_t at = 0; at < line.size(); ++at) {
    const char c = line[at];
    if (c == '"') {
      // Two quotes within quotes are one character, not an end and a beginning.
      const bool doubled = quoted && at + 1 < line.size() && line[at + 1] == '"';
      if (doubled) cells.back() += line[++at];
      if (!doubled) quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else if (c != '\r') {
      // Files may have been saved with Windows' line ends.
      cells.back() += c;
    }
  }
  return cells;
}

}  // namespace

double Printed::rounded(double x) const {
  if (std::abs(x - value) <= last_digit / 2 * (1 + 1e-9)) return value;
  return std::round(x / last_digit) * last_digit;
}

std::optional<Printed> parse_printed(const std::string& text) {
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(number)) return std::nullopt;
  const std::string digits(text.data(), end), suffix(end, text.data() + text.size());
  const double scale = suffix == "M"                     ? 1e6
                       : suffix == "B"                   ? 1e9
                       : suffix.empty() || suffix == "G" ? 1
                                                         : 0;
  if (scale == 0) return std::nullopt;
  const auto point = digits.find('.');
  const auto decimals =
      point == std::string::npos ? 0 : static_cast<int>(digits.size() - point - 1);
  return Printed{number * scale, scale * std::pow(10, -decimals)};
}

PublishedRow::PublishedRow(std::string where, std::map<std::string, std::string> cells)
    : where_(std::move(where)), cells_(std::move(cells)) {}

const std::string& PublishedRow::text(const std::string& column) const {
  const auto found = cells_.find(column);
  if (found == cells_.end()) throw InputError(where_, column, "this column is missing");
  return found->second;
}

const std::string& PublishedRow::text_or_empty(const std::string& column) const {
  static const std::string kEmpty;
  const auto found = cells_.find(column);
  return found == cells_.end() ? kEmpty : found->second;
}

std::optional<Printed> PublishedRow::printed_or_none(const std::string& column) const {
  if (text_or_empty(column).empty()) return std::nullopt;
  return printed(column);
}

Printed PublishedRow::printed(const std::string& column) const {
  const std::string& cell = text(column);
  const auto value = parse_printed(cell);
  if (!value)
    throw InputError(where_, column,
                     fmt::format("\"{}\": expected a number, as 0.2431 or 5.3B", cell));
  return *value;
}

int PublishedRow::integer(const std::string& column) const {
  const double value = number(column);
  if (value < 1 || value > 1e9 || value != std::floor(value)) {
    throw InputError(where_, column,
                     fmt::format("\"{}\": expected a positive integer", text(column)));
  }
  return static_cast<int>(value);
}

int PublishedRow::share(const std::string& column, int parts) const {
  const int whole = integer(column);
  if (whole % parts != 0) fail(column, fmt::format("{} is no multiple of {}", whole, parts));
  return whole / parts;
}

void PublishedRow::fail(const std::string& column, const std::string& message) const {
  throw InputError(where_, column, fmt::format("\"{}\": {}", text(column), message));
}

std::vector<PublishedRow> parse_published(const std::string& text, const std::string& file) {
  std::istringstream lines(text);
  std::vector<std::string> header;
  std::vector<PublishedRow> rows;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    // Comments say where a table was read.
    if (line.empty() || line == "\r" || line.starts_with('#')) continue;
    const std::vector<std::string> cells = split(line);
    if (header.empty()) {
      header = cells;
      continue;
    }
    // A row that was cut off would shift every column behind the cut.
    if (cells.size() != header.size()) {
      throw InputError(
          file, fmt::format("line {}", number),
          fmt::format("{} columns where the header has {}", cells.size(), header.size()));
    }
    std::map<std::string, std::string> named;
    for (std::size_t c = 0; c < cells.size(); ++c) {
      if (!named.emplace(header[c], cells[c]).second)
        throw InputError(file, header[c], "this column stands twice");
    }
    rows.emplace_back(fmt::format("{}: line {}", file, number), std::move(named));
  }
  // An empty table would make a case that is always right.
  if (rows.empty()) throw InputError(file, "", "no rows");
  return rows;
}

bool Publications::has(const std::string& name) const {
  return folder ? std::filesystem::exists(*folder / name) : compiled_tables().contains(name);
}

std::vector<PublishedRow> Publications::table(const std::string& name) const {
  if (folder) return parse_published(read_text_file(*folder / name), (*folder / name).string());
  return parse_published(compiled_tables().at(name), name);
}

}  // namespace weir
