// Published tables as they were printed: CSV with a header, `#` lines before it that cite the
// source. They are compiled in from tools/examples/published, and measured runs of real clusters
// from tools/examples/measured (cmake/PublishedTables.cmake); a folder with files of the same names
// takes their place, so that other rows of a source can be held to the same rules. Columns that
// nobody asks for may be there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace weir {

// A number and what its last printed digit is worth: "282.2M" is 282.2e6 and 0.1e6.
struct Printed {
  double value = 0;
  double last_digit = 0;

  // x as it would have been printed; the very `value` where it rounds to it.
  [[nodiscard]] double rounded(double x) const;
};

// "0.2431", "18", or with a suffix: M (1e6), B (1e9); G stays 1, the reader knows of which bytes.
// nullopt: anything else.
[[nodiscard]] std::optional<Printed> parse_printed(const std::string& text);

class PublishedRow {
 public:
  PublishedRow(std::string where, std::map<std::string, std::string> cells);
  // Throw InputError with file, row and column.
  [[nodiscard]] const std::string& text(const std::string& column) const;
  // Of a column that may be missing, and of a cell that may be empty.
  [[nodiscard]] const std::string& text_or_empty(const std::string& column) const;
  [[nodiscard]] std::optional<Printed> printed_or_none(const std::string& column) const;
  [[nodiscard]] Printed printed(const std::string& column) const;
  [[nodiscard]] double number(const std::string& column) const { return printed(column).value; }
  [[nodiscard]] int integer(const std::string& column) const;  // at least 1
  // The column over `parts`; InputError where that leaves a rest.
  [[nodiscard]] int share(const std::string& column, int parts) const;
  [[noreturn]] void fail(const std::string& column, const std::string& message) const;

 private:
  std::string where_;
  std::map<std::string, std::string> cells_;
};

// The entry that a row names in `column`. Throws InputError where there is none.
template <class Value>
[[nodiscard]] const Value& named(const std::map<std::string, Value>& all, const PublishedRow& row,
                                 const std::string& column) {
  const auto found = all.find(row.text(column));
  if (found == all.end()) row.fail(column, "names nothing that is known");
  return found->second;
}

// Throws InputError: a row of another length than the header, a column twice, no row.
[[nodiscard]] std::vector<PublishedRow> parse_published(const std::string& text,
                                                        const std::string& file);

// Where tables come from: a folder, or what was compiled in.
struct Publications {
  std::optional<std::filesystem::path> folder;
  [[nodiscard]] bool has(const std::string& name) const;
  [[nodiscard]] std::vector<PublishedRow> table(const std::string& name) const;
};

// The texts of the tables, of the machines of tools/examples/clusters and of the software of
// tools/examples/stacks, by file name.
[[nodiscard]] const std::map<std::string, std::string>& compiled_tables();

}  // namespace weir
