// A table as data, written as people or their programs want it: in columns that fit a terminal, as
// Markdown, or as CSV. All commands that print rows print one of these.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/words/units.hpp"

namespace weir {

// A cell is rounded for people and exact for programs; only who makes it knows both.
struct Cell {
  Cell() = default;
  // By one argument: a row is a list of texts and quantities.
  Cell(std::string of) : text(std::move(of)), exact(text) {}
  Cell(const char* of) : Cell(std::string(of)) {}
  Cell(std::integral auto of) : Cell(std::to_string(of)) {}
  Cell(Seconds of);
  Cell(Bytes of);
  Cell(std::string for_people, std::string for_programs, std::string_view its_unit)
      : text(std::move(for_people)), exact(std::move(for_programs)), unit(its_unit) {}

  std::string text;
  std::string exact;      // a number has as many digits as read back to it
  std::string_view unit;  // that `exact` is in: "s", "bytes", "%"; a literal
};
[[nodiscard]] Cell number(double value, std::string text, std::string_view unit = {});
// As 100 times the share.
[[nodiscard]] Cell percent(double share, fmt::format_string<double> format = "{:.1f}%");

struct Column {
  std::string head;
  enum class Align : std::uint8_t { left, right } align = Align::right;
  std::string exact_head = {};  // of programs, where people's head says a unit; else empty
  bool drawn = false;           // of pictures, which programs do not get
};
[[nodiscard]] Column left(std::string head);

struct Table {
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;  // a cell a column; "" and "-" say nothing
  std::optional<std::size_t> best;      // the row that is marked, if any
};

// A text without its middle, of `width` characters, where it is longer.
[[nodiscard]] std::string cut(const std::string& text, std::size_t width);

// Rows that follow each other and are equal from the column `same_from` on become one, whose cells
// before it say the first and the last of them: "1..12", "block.0..11" or "stem..head".
[[nodiscard]] Table folded(const Table& table, std::size_t same_from);

enum class TableFormat : std::uint8_t { table, markdown, csv };
// Of "table", "markdown" or "csv"; nullopt for another word.
[[nodiscard]] std::optional<TableFormat> table_format(std::string_view name);

// Aligned columns of at most `width` characters a line, none: as wide as they are. Columns in which
// no row says anything are left out. Where the rest is too wide, the left-aligned columns are cut
// in the middle, to no fewer than 24 characters, and the columns that still have no room follow in
// lines of their own below, behind the first column again. The best row begins with "*".
[[nodiscard]] std::string columns_text(const Table& table, std::optional<std::size_t> width);
// Columns that say nothing are left out; the best row's first cell is bold.
[[nodiscard]] std::string markdown_text(const Table& table);
// Every row, exact; what says nothing is an empty cell (RFC 4180, lines end in \n). A unit that all
// of a column are in stands in its head; where there are several the row says which.
[[nodiscard]] std::string csv_text(const Table& table);

}  // namespace weir
