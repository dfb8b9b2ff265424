// Bars over one axis of time that begins at zero: forecast steps with their intervals, one above
// the other, and a step as the parts that it is made of.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/words/units.hpp"
#include "tools/report/vector.hpp"

namespace weir {

struct Bar {
  Seconds from{0}, to{0};  // either may be the later one: a part may take time off
  Paint fill;
  std::string text;  // right of all bars, on its line; empty: none
  std::optional<std::pair<Seconds, Seconds>> interval = {};  // a line from end to end, with ends
  std::optional<Seconds> mark = {};                          // a stroke across the bar
};

struct BarRow {
  std::string label;
  std::vector<Bar> bars;  // under each other
};

struct BarChart {
  std::string title;
  std::vector<std::pair<std::string, Paint>> legend;  // empty: none
  std::vector<BarRow> rows;
  bool labels_above = false;  // true: of any width; else where labels beside bars leave no room
  double width = 720;         // points
};

[[nodiscard]] Drawing draw_bars(const BarChart& chart);

}  // namespace weir
