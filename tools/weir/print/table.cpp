// Columns measured, cut and laid out.
// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/print/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
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

bool says_nothing(const std::string& cell) { return cell.empty() || cell == "-"; }

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
      return says_nothing(row[c]);
    });
    if (empty) continue;
    kept.columns.push_back({printable_in_line(table.columns[c].head), table.columns[c].align});
    for (std::size_t r = 0; r < table.rows.size(); ++r)
      kept.rows[r].push_back(printable_in_line(table.rows[r][c]));
  }
  return kept;
}

std::vector<std::size_t> widths_of(const Table& table) {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    std::size_t widest = width_of(table.columns[c].head);
    for (const auto& row : table.rows) widest = std::max(widest, width_of(row[c]));
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

// A number with its unit, in the unit that programs get.
struct Measure {
  double value = 0;
  std::string_view unit;
};
std::optional<Measure> measure_of(std::string_view text) {
  struct Unit {
    std::string_view name, base;
    double size;
  };
  static constexpr std::array kUnits{Unit{" ns", "s", 1e-9},
                                     Unit{" us", "s", 1e-6},
                                     Unit{" ms", "s", 1e-3},
                                     Unit{" s", "s", 1},
                                     Unit{" B", "bytes", 1},
                                     Unit{" KiB", "bytes", 0x1p10},
                                     Unit{" MiB", "bytes", 0x1p20},
                                     Unit{" GiB", "bytes", 0x1p30},
                                     Unit{" TiB", "bytes", 0x1p40},
                                     Unit{" %", "%", 1},
                                     Unit{"%", "%", 1}};
  for (const Unit& unit : kUnits) {
    if (!text.ends_with(unit.name)) continue;
    std::string digits(text.substr(0, text.size() - unit.name.size()));
    if (digits.starts_with("+")) digits.erase(0, 1);
    const auto number = whole_number<double>(digits);
    if (number) return Measure{*number * unit.size, unit.base};
  }
  return std::nullopt;
}

// Of a column whose cells are all numbers of one kind, or say nothing; else none.
std::string_view unit_of_column(const Table& table, std::size_t column) {
  std::string_view unit;
  for (const auto& row : table.rows) {
    if (says_nothing(row[column])) continue;
    const auto measure = measure_of(row[column]);
    if (!measure || (!unit.empty() && measure->unit != unit)) return {};
    unit = measure->unit;
  }
  return unit;
}

// A spreadsheet runs a text that begins so; a number with its sign it reads as one.
bool looks_like_formula(const std::string& text) {
  if (text.empty() || std::string_view("=+-@\t\r").find(text.front()) == std::string_view::npos)
    return false;
  const std::string unsigned_text = text.substr(text.front() == '+' ? 1 : 0);
  return !whole_number<double>(unsigned_text) && !measure_of(text);
}

std::string csv_cell(const std::string& text) {
  if (says_nothing(text)) return "";
  // Programs read it line by line, and people show it to their terminals.
  return csv_quoted(printable_in_line(looks_like_formula(text) ? "'" + text : text));
}

}  // namespace

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
  const auto equal = [&](const auto& a, const auto& b) {
    return std::equal(a.begin() + static_cast<std::ptrdiff_t>(same_from), a.end(),
                      b.begin() + static_cast<std::ptrdiff_t>(same_from), b.end());
  };
  Table fewer{table.columns, {}, {}};
  for (std::size_t first = 0; first < table.rows.size();) {
    std::size_t last = first;
    // Neighbours alone: rows keep their order.
    while (last + 1 < table.rows.size() && equal(table.rows[first], table.rows[last + 1])) ++last;
    auto& row = fewer.rows.emplace_back(table.rows[first]);
    for (std::size_t c = 0; c < same_from && last > first; ++c)
      row[c] = range_of(table.rows[first][c], table.rows[last][c]);
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
      text += line_of(block, shown, widths, [&](std::size_t c) { return shown.rows[r][c]; });
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
      const std::string cell = markdown_cell(shown.rows[r][c]);
      // Markdown has no room beside the table: the best row is bold.
      text += shown.best == r && c == 0 ? " **" + cell + "** |" : " " + cell + " |";
    }
    text += "\n";
  }
  return text;
}

std::string csv_text(const Table& table) {
  std::string text;
  std::vector<std::string_view> units;  // that each column's numbers have
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    units.push_back(unit_of_column(table, c));
    const std::string& head = table.columns[c].head;
    text += (c > 0 ? "," : "") +
            csv_cell(units[c].empty() ? head : fmt::format("{} [{}]", head, units[c]));
  }
  text += "\n";
  for (const auto& row : table.rows) {
    for (std::size_t c = 0; c < row.size(); ++c) {
      const auto number = units[c].empty() ? std::nullopt : measure_of(row[c]);
      text +=
          (c > 0 ? "," : "") + (number ? fmt::format("{:.12g}", number->value) : csv_cell(row[c]));
    }
    text += "\n";
  }
  return text;
}

}  // namespace weir
