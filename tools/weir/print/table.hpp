// A table as data, written as people or their programs want it: in columns that fit a terminal, as
// Markdown, or as CSV. All commands that print rows print one of these.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weir {

struct Column {
  std::string head;
  enum class Align : std::uint8_t { left, right } align = Align::right;
};
[[nodiscard]] Column left(std::string head);

struct Table {
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;  // a cell a column; "" and "-" say nothing
  std::optional<std::size_t> best;             // the row that is marked, if any
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
// Every column, every row; what says nothing is an empty cell (RFC 4180, lines end in \n).
[[nodiscard]] std::string csv_text(const Table& table);

}  // namespace weir
