// Columns measured, cut and laid out; cells made.
// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/print/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "plan/text/cells.hpp"
#include "plan/text/quote.hpp"
#include "plan/text/utf8.hpp"
#include "plan/words/names.hpp"

namespace weir {
namespace {

constexpr std::size_t kNarrowest = 24;  // of a text that is cut
constexpr std::string_view kGap = "  ", kMark = "* ";

bool says_nothing(const std::string& text) { return text.empty() || text == "-"; }

// Where each character of a text begins, and where the last one ends.
std::vector<std::size_t> characters(std::string_view text) {
  std::vector<std::size_t> begins{0};
  while (begins.back() < text.size()) {
    const std::size_t bytes = utf8_character(text.substr(begins.back()));
    begins.push_back(begins.back() + std::max<std::size_t>(bytes, 1));
  }
  return begins;
}

std::size_t width_of(std::string_view text) { return characters(text).size() - 1; }

// Without the columns in which no row says anything, and as a terminal may show it.
Table for_people(const Table& table) {
  Table kept{.columns = {}, .rows = {}, .best = table.best};
  kept.rows.resize(table.rows.size());
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    const bool empty = !table.rows.empty() && std::ranges::all_of(table.rows, [&](const auto& row) {
      return says_nothing(row[c].text);
    });
    if (empty) continue;
    kept.columns.push_back({printable_in_line(table.columns[c].head), table.columns[c].align});
    for (std::size_t r = 0; r < table.rows.size(); ++r)
      kept.rows[r].emplace_back(printable_in_line(table.rows[r][c].text));
  }
  return kept;
}

std::vector<std::size_t> widths_of(const Table& table) {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    std::size_t widest = width_of(table.columns[c].head);
    for (const auto& row : table.rows) widest = std::max(widest, width_of(row[c].text));
    widths.push_back(widest);
  }
  return widths;
}

// What the columns [first, last) take, with the gaps between them.
std::size_t total(const std::vector<std::size_t>& widths, std::size_t first, std::size_t last) {
  std::size_t sum = 0;
  for (std::size_t c = first; c < last; ++c) sum += widths[c] + (c > first ? kGap.size() : 0);
  return sum;
}

// Takes from the widest text until all fits or every text is at its narrowest.
void shrink(const Table& table, std::vector<std::size_t>& widths, std::size_t width) {
  while (total(widths, 0, widths.size()) > width) {
    std::optional<std::size_t> widest;
    for (std::size_t c = 0; c < widths.size(); ++c) {
      const bool text = table.columns[c].align == Column::Align::left && widths[c] > kNarrowest;
      if (text && (!widest || widths[c] > widths[*widest])) widest = c;
    }
    if (!widest) return;
    --widths[*widest];
  }
}

// The columns of each block of lines: all of them, or the first and as many more as have room.
std::vector<std::vector<std::size_t>> blocks_of(const std::vector<std::size_t>& widths,
                                                std::optional<std::size_t> width) {
  std::vector<std::vector<std::size_t>> blocks{{}};
  std::size_t used = 0;
  for (std::size_t c = 0; c < widths.size(); ++c) {
    // The first column names the row, so it stands in every block.
    const bool full = width && blocks.back().size() > (c > 0 ? 1U : 0U) &&
                      used + kGap.size() + widths[c] > *width;
    if (full) {
      blocks.push_back({0});
      used = widths[0];
    }
    // No gap before a block's first column.
    used += widths[c] + (blocks.back().empty() ? 0 : kGap.size());
    blocks.back().push_back(c);
  }
  return blocks;
}

std::string padded(const std::string& text, std::size_t width, Column::Align align) {
  const std::string blanks(width - std::min(width, width_of(text)), ' ');
  return align == Column::Align::left ? text + blanks : blanks + text;
}

template <class Cell>
std::string line_of(const std::vector<std::size_t>& block, const Table& table,
                    const std::vector<std::size_t>& widths, Cell cell) {
  std::string line;
  for (const std::size_t c : block) {
    if (!line.empty()) line += kGap;
    line += padded(cut(cell(c), widths[c]), widths[c], table.columns[c].align);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

// "block.0..11": what two names have before their numbers is said once.
std::string range_of(const std::string& first, const std::string& last) {
  constexpr std::string_view kDigits = "0123456789";
  const std::size_t a = first.find_last_not_of(kDigits) + 1;
  const std::size_t b = last.find_last_not_of(kDigits) + 1;
  const bool numbered = a < first.size() && first.substr(0, a) == last.substr(0, b);
  return first + ".." + (numbered ? last.substr(b) : last);
}

std::string markdown_cell(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

// Of a column whose cells are all in one, or say nothing; else none.
std::string_view unit_of_column(const Table& table, std::size_t column) {
  std::optional<std::string_view> unit;
  for (const auto& row : table.rows) {
    const Cell& cell = row[column];
    if (says_nothing(cell.exact)) continue;
    if (unit.value_or(cell.unit) != cell.unit) return {};
    unit = cell.unit;
  }
  return unit.value_or(std::string_view());
}

// A spreadsheet runs a text that begins so; a number with its sign it reads as one.
bool looks_like_formula(const std::string& text) {
  if (text.empty() || std::string_view("=+-@\t\r").find(text.front()) == std::string_view::npos)
    return false;
  const std::string unsigned_text = text.substr(text.front() == '+' ? 1 : 0);
  return !whole_number<double>(unsigned_text);
}

std::string csv_cell(const std::string& text) {
  if (says_nothing(text)) return "";
  // Programs read it line by line, and people show it to their terminals.
  return csv_quoted(printable_in_line(looks_like_formula(text) ? "'" + text : text));
}

std::string csv_head(const Table& table, std::size_t column) {
  const Column& of = table.columns[column];
  const std::string& name = of.exact_head.empty() ? of.head : of.exact_head;
  const std::string_view unit = unit_of_column(table, column);
  return csv_cell(unit.empty() ? name : fmt::format("{} [{}]", name, unit));
}

// The same in all lines: heads, and the cells below them.
template <class Texts>
std::string csv_line(const Table& table, Texts text_of) {
  std::string line;
  bool first = true;
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    if (table.columns[c].drawn) continue;
    line += (std::exchange(first, false) ? "" : ",") + text_of(c);
  }
  return line + "\n";
}

}  // namespace

Cell::Cell(Seconds of) : Cell(number(of.count(), format_duration(of), "s")) {}
Cell::Cell(Bytes of) : Cell(format_bytes(of), std::to_string(of.count()), "bytes") {}

// What is no number is null in JSON, too.
Cell number(double value, std::string text, std::string_view unit) {
  return {std::move(text), std::isfinite(value) ? fmt::format("{}", value) : "", unit};
}

Cell percent(double share, fmt::format_string<double> format) {
  const double value = share * 100;
  return number(value, fmt::format(format, double(value)), "%");
}

// The middle says least: a plan begins with its degrees and ends with what sets it apart.
std::string cut(const std::string& text, std::size_t width) {
  const std::vector<std::size_t> begins = characters(text);
  const std::size_t length = begins.size() - 1;
  if (length <= width) return text;
  const std::size_t tail = (width - 3) / 2, head = width - 3 - tail;
  return text.substr(0, begins[head]) + "..." + text.substr(begins[length - tail]);
}

Column left(std::string head) { return {std::move(head), Column::Align::left}; }

Table folded(const Table& table, std::size_t same_from) {
  const auto equal = [&](const std::vector<Cell>& a, const std::vector<Cell>& b) {
    const auto from = static_cast<std::ptrdiff_t>(same_from);
    return std::equal(a.begin() + from, a.end(), b.begin() + from, b.end(),
                      [](const Cell& one, const Cell& other) { return one.text == other.text; });
  };
  Table fewer{table.columns, {}, {}};
  for (std::size_t first = 0; first < table.rows.size();) {
    std::size_t last = first;
    // Neighbours alone: rows keep their order.
    while (last + 1 < table.rows.size() && equal(table.rows[first], table.rows[last + 1])) ++last;
    auto& row = fewer.rows.emplace_back(table.rows[first]);
    for (std::size_t c = 0; c < same_from && last > first; ++c)
      row[c] = range_of(table.rows[first][c].text, table.rows[last][c].text);
    first = last + 1;
  }
  return fewer;
}

std::optional<TableFormat> table_format(std::string_view name) {
  static constexpr Names<TableFormat, 3> kNames{{{TableFormat::table, "table"},
                                                 {TableFormat::markdown, "markdown"},
                                                 {TableFormat::csv, "csv"}}};
  return named(kNames, name);
}

std::string columns_text(const Table& table, std::optional<std::size_t> width) {
  const Table shown = for_people(table);
  // A mark stands before the best row, so all lines of the table begin behind its room.
  const std::size_t margin = shown.best ? kMark.size() : 0;
  const std::string blank(margin, ' ');
  // A mark takes room from all lines, or columns would not stand under each other.
  if (width) *width -= std::min(*width, margin);
  std::vector<std::size_t> widths = widths_of(shown);
  if (width) shrink(shown, widths, *width);
  std::string text;
  for (const std::vector<std::size_t>& block : blocks_of(widths, width)) {
    if (!text.empty()) text += "\n";
    text +=
        blank + line_of(block, shown, widths, [&](std::size_t c) { return shown.columns[c].head; });
    for (std::size_t r = 0; r < shown.rows.size(); ++r) {
      text += shown.best == r ? std::string(kMark) : blank;
      text += line_of(block, shown, widths, [&](std::size_t c) { return shown.rows[r][c].text; });
    }
  }
  return text;
}

std::string markdown_text(const Table& table) {
  const Table shown = for_people(table);
  std::string text = "|", rule = "|";
  for (const Column& column : shown.columns) {
    text += " " + markdown_cell(column.head) + " |";
    rule += column.align == Column::Align::left ? " --- |" : " ---: |";
  }
  text += "\n" + rule + "\n";
  for (std::size_t r = 0; r < shown.rows.size(); ++r) {
    text += "|";
    for (std::size_t c = 0; c < shown.rows[r].size(); ++c) {
      const std::string cell = markdown_cell(shown.rows[r][c].text);
      // Markdown has no room beside the table: the best row is bold.
      text += shown.best == r && c == 0 ? " **" + cell + "** |" : " " + cell + " |";
    }
    text += "\n";
  }
  return text;
}

std::string csv_text(const Table& table) {
  std::string text = csv_line(table, [&](std::size_t c) { return csv_head(table, c); });
  for (const auto& row : table.rows)
    text += csv_line(table, [&](std::size_t c) { return csv_cell(row[c].exact); });
  return text;
}

}  // namespace weir
