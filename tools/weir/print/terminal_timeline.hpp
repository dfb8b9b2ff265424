// A timeline in characters, one row a rank, for terminals.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plan/words/action.hpp"
#include "tools/weir/print/printout.hpp"
#include "traces/trace.hpp"

namespace weir {

// A rank's row: a character a cell, and of what kind the action is that covers it.
struct DrawnRow {
  std::string cells;
  std::vector<ActionKind> kinds;  // OPTIMIZER where nothing runs, too
  std::vector<bool> shaded;       // an action of every other stage of the rank
};
// The compute lanes of the first step. The shortest action that lasts a quarter of the median one
// gets the cells of the longest name and a "|" behind it, at least five, unless a row would be
// longer than `most` cells.
[[nodiscard]] std::vector<DrawnRow> drawn_rows(const Trace& trace, std::size_t most);

struct TitledTrace {
  std::string title;  // empty: none
  const Trace* trace;
};

// Prints them under each other on one scale, folded to lines of `width` characters (none: one line
// a rank); each fold has all ranks of all. Colours on a terminal unless NO_COLOR is set; what is
// shaded is underlined.
void draw_in_terminal(Printout& out, std::span<const TitledTrace> traces,
                      std::optional<std::size_t> width);
void draw_in_terminal(Printout& out, const Trace& trace, std::optional<std::size_t> width);

}  // namespace weir
