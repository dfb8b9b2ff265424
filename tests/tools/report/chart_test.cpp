// Charts by places that can be worked out: a legend lies on no line.
// SPDX-License-Identifier: Apache-2.0
#include "tools/report/chart.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tools/report/font.hpp"

namespace weir::chart_test {
namespace {

template <class Shape>
std::vector<Shape> all(const Drawing& drawing) {
  std::vector<Shape> shapes;
  for (const auto& shape : drawing.shapes) {
    if (const auto* one = std::get_if<Shape>(&shape)) shapes.push_back(*one);
  }
  return shapes;
}

// Whether any of the lines goes through a legend, from its dots to its last word, each line looked
// at in 500 places between two points.
bool is_on_a_line(const Drawing& drawing, const std::vector<std::string>& names) {
  constexpr double kDots = 10;  // what stands before a name
  double left = drawing.width, right = 0, top = drawing.height, bottom = 0;
  for (const Text& text : all<Text>(drawing)) {
    if (std::ranges::find(names, text.text) == names.end()) continue;
    left = std::min(left, text.x - kDots);
    right = std::max(right, text.x + text_width(text.text, text.size));
    top = std::min(top, text.y - text.size);
    bottom = std::max(bottom, text.y);
  }
  for (const Line& line : all<Line>(drawing)) {
    if (line.colour != kBlue && line.colour != kRed) continue;  // grid and marks
    for (std::size_t i = 1; i < line.points.size(); ++i) {
      const auto [x0, y0] = line.points[i - 1];
      const auto [x1, y1] = line.points[i];
      for (int part = 0; part <= 500; ++part) {
        const double x = x0 + (x1 - x0) * part / 500, y = y0 + (y1 - y0) * part / 500;
        if (x >= left && x <= right && y >= top && y <= bottom) return true;
      }
    }
  }
  return false;
}

// Lines that leave one corner of the four: below a rising one the lower right, and so on.
TEST(Chart, LegendsLieOffTheLines) {
  using Points = std::vector<std::pair<double, double>>;
  const Points rising{{0, 0}, {10, 10}}, falling{{0, 10}, {10, 0}};
  const Points high{{0, 10}, {10, 10}}, low{{0, 0}, {10, 0}};
  const Points left{{0, 0}, {0.5, 10}}, right{{9.5, 10}, {10, 0}};
  const std::vector<std::string> names{"predicted", "measured"};
  // Which of them stands on the right is told from where they all would lie without these lines.
  for (const auto& [one, other] :
       {std::pair(rising, low), std::pair(falling, low), std::pair(rising, high),
        std::pair(falling, high), std::pair(high, right), std::pair(low, left)}) {
    for (const double width : {kPageChart, kPaperChart, kWidePageChart}) {
      const Chart chart{.title = "",
                        .x_label = "",
                        .y_label = "",
                        .series = {{names[0], one, kBlue}, {names[1], other, kRed}},
                        .width = width};
      EXPECT_FALSE(is_on_a_line(draw_chart(chart), names))
          << one[0].second << " to " << one[1].second << " and " << other[0].second << ", "
          << width;
    }
  }
  // The check sees what it looks for: a line where the words are.
  const Chart chart{.title = "", .x_label = "", .y_label = "", .series = {{"a", low, kBlue}}};
  Drawing drawing = draw_chart(chart);
  EXPECT_FALSE(is_on_a_line(drawing, {"a"}));
  for (const Text& text : all<Text>(draw_chart(chart))) {
    if (text.text == "a")
      drawing.shapes.push_back(Line{{{0, text.y - 2}, {chart.width, text.y - 2}}, kRed, 1, false});
  }
  EXPECT_TRUE(is_on_a_line(drawing, {"a"}));
}

}  // namespace
}  // namespace weir::chart_test
