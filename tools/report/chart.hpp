// Charts as drawings: lines and dots over two axes, on a linear or binary-logarithmic x.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/report/vector.hpp"

namespace weir {

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;
  Paint colour;
  // line: with dots at its points; stroke: without
  enum class Mark : std::uint8_t { line, dots, dashed, stroke } mark = Mark::line;
};

struct Chart {
  std::string title, x_label, y_label;
  std::vector<Series> series;
  bool log2_x = false;
  std::optional<double> vertical;  // a marked x, with its name
  std::string vertical_name;
  bool diagonal = false;  // y = x, for predicted against measured
  bool from_zero = true;  // false: y begins near the least of them, where that is above half of all
  double width = 360, height = 240;
};

// The width of one in a page, a telephone's, a sheet of paper's and a desk's.
inline constexpr double kPageChart = 270, kPaperChart = 520, kWidePageChart = 800;

[[nodiscard]] Drawing draw_chart(const Chart& chart);
[[nodiscard]] std::string chart_csv(const Chart& chart);  // series, x, y

// GPipe's claim seen: bubble (and memory) against M, predicted and measured, the formula
// (K-1)/(M+K-1) (Huang et al., NeurIPS 2019, section 2.3) and the line M = 4K above which the paper
// calls the bubble negligible.
struct BubblePoint {
  int microbatches = 0;
  double predicted = 0;
  std::optional<double> measured;
  double peak_memory_gib = 0;
};
[[nodiscard]] std::pair<Chart, Chart> bubble_charts(const std::vector<BubblePoint>& points,
                                                    int ranks);

// Two drawings side by side.
[[nodiscard]] Drawing beside(const Drawing& left, const Drawing& right);

}  // namespace weir
