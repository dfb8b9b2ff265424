// Tables on stdout, and how wide it is.
// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/print/printout.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

#include "plan/text/cells.hpp"

namespace weir {
namespace {

// COLUMNS where that is set, else the terminal's; nullopt where stdout is a file or a pipe, whose
// lines may be as long as they are.
std::optional<std::size_t> line_width() {
  // Nothing here sets the environment.
  // NOLINTNEXTLINE(concurrency-mt-unsafe)
  if (const char* asked = std::getenv("COLUMNS")) {
    const auto columns = whole_number<int>(asked);
    if (columns && *columns > 0) return static_cast<std::size_t>(*columns);
  }
  winsize size{};
  if (isatty(STDOUT_FILENO) == 0 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return {};
  if (size.ws_col == 0) return {};
  return size.ws_col;
}

}  // namespace

std::optional<std::size_t> Printout::width() const { return width_ ? width_ : line_width(); }

void Printout::show(const Table& table) {
  switch (format_) {
    case TableFormat::table:
      fmt::print("{}", columns_text(table, width()));
      break;
    case TableFormat::markdown:
      // Without an empty line before it a table would belong to the paragraph above.
      fmt::print("\n{}\n", markdown_text(table));
      break;
    case TableFormat::csv:
      // Tables of one file are told apart by the empty line between them.
      fmt::print("{}{}", shown_ ? "\n" : "", csv_text(table));
      break;
  }
  shown_ = true;
}

}  // namespace weir
