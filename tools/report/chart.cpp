// Charts drawn as shapes.
// SPDX-License-Identifier: Apache-2.0
#include "tools/report/chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "plan/text/quote.hpp"
#include "plan/words/figures.hpp"
#include "tools/report/ticks.hpp"

namespace weir {
namespace {

constexpr Paint kMark{{190, 60, 60}, {240, 110, 110}};  // of what is pointed at
constexpr int kMostTicks = 7;                           // of an axis
constexpr double kLeft = 46, kRight = 12, kTop = 24, kBottom = 34;

// What an axis shows, from end to end.
struct Axis {
  double low = 1e300, high = -1e300;

  void cover(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  [[nodiscard]] double share(double value) const { return (value - low) / (high - low); }
};

class ChartAxes {
 public:
  explicit ChartAxes(const Chart& chart) : chart_(chart) {
    for (const Series& series : chart.series) {
      for (const auto& [x, y] : series.points) {
        x_.cover(place(x));
        y_.cover(y);
      }
    }
    if (chart.vertical) x_.high = std::max(x_.high, place(*chart.vertical));
    // Nothing to draw: a frame all the same.
    if (x_.low > x_.high) x_ = y_ = {0, 1};
    if (chart.diagonal) {
      // One scale for both axes, or the diagonal would not mean equality.
      x_ = y_ = {std::min(x_.low, y_.low) * 0.95, std::max(x_.high, y_.high) * 1.05};
    } else if (chart.from_zero || y_.low < y_.high / 2) {
      // Amounts are seen from zero.
      y_.low = std::min(y_.low, 0.0);
    } else {
      // What lies close together is told apart; of a single height some room on both sides.
      y_.low -= std::max((y_.high - y_.low) * 0.08, y_.high * 0.01);
    }
    if (x_.high == x_.low) x_.high += 1;
    // Some room above the highest point.
    y_.high = y_.high == y_.low ? y_.low + 1 : y_.high + (y_.high - y_.low) * 0.05;
  }
  [[nodiscard]] double x(double value) const {
    return kLeft + x_.share(place(value)) * (chart_.width - kLeft - kRight);
  }
  [[nodiscard]] double y(double value) const {
    return chart_.height - kBottom - y_.share(value) * (chart_.height - kTop - kBottom);
  }
  [[nodiscard]] Ticks x_ticks() const {
    if (!chart_.log2_x) return round_ticks(x_.low, x_.high, kMostTicks);
    Ticks ticks;
    const auto first = static_cast<int>(std::ceil(x_.low));
    for (int e = first; e <= x_.high + 1e-9; ++e) ticks.at.push_back(std::exp2(e));
    return ticks;
  }
  [[nodiscard]] Ticks y_ticks() const { return round_ticks(y_.low, y_.high, kMostTicks); }
  [[nodiscard]] const Axis& shown_x() const { return x_; }

 private:
  [[nodiscard]] double place(double x) const { return chart_.log2_x ? std::log2(x) : x; }
  const Chart& chart_;
  Axis x_, y_;
};

// Where the legend has the fewest points and lines behind it: its upper left corner, with the first
// of equals, the upper right one before all.
std::pair<double, double> legend_place(const Chart& chart, const ChartAxes& axes) {
  constexpr double kWide = 102, kLine = 10;
  constexpr int kParts = 12;  // of a line between two points, looked at
  const double high = kLine * static_cast<double>(chart.series.size());
  const double right = chart.width - kRight - kWide, left = kLeft + 6;
  const double top = kTop, bottom = chart.height - kBottom - high - 2;
  std::pair<double, double> best;
  int fewest = -1;
  for (const auto& [x, y] : {std::pair{right, top}, {right, bottom}, {left, bottom}, {left, top}}) {
    int behind = 0;
    const auto count = [&, x = x, y = y](double at_x, double at_y) {
      if (at_x >= x - 4 && at_x <= x + kWide && at_y >= y - 4 && at_y <= y + high + 4) ++behind;
    };
    for (const Series& series : chart.series) {
      const bool line = series.mark != Series::Mark::dots;
      for (std::size_t i = 0; i < series.points.size(); ++i) {
        const auto [to_x, to_y] = series.points[i];
        count(axes.x(to_x), axes.y(to_y));
        if (!line || i == 0) continue;
        const auto [from_x, from_y] = series.points[i - 1];
        for (int part = 1; part < kParts; ++part) {
          const double share = static_cast<double>(part) / kParts;
          count(axes.x(from_x) + share * (axes.x(to_x) - axes.x(from_x)),
                axes.y(from_y) + share * (axes.y(to_y) - axes.y(from_y)));
        }
      }
    }
    if (fewest >= 0 && behind >= fewest) continue;
    fewest = behind;
    best = {x, y};
  }
  return best;
}

}  // namespace

Drawing draw_chart(const Chart& chart) {
  const ChartAxes axes(chart);
  Drawing d{chart.width, chart.height, {}};
  d.shapes.push_back(Text{chart.width / 2, 12, chart.title, 9, Anchor::middle, kInk});
  const Ticks y_ticks = axes.y_ticks(), x_ticks = axes.x_ticks();
  // Grid first: what is drawn later lies on top of it.
  for (const double tick : y_ticks.at) {
    d.shapes.push_back(
        Line{{{kLeft, axes.y(tick)}, {chart.width - kRight, axes.y(tick)}}, kGrid, 0.5, false});
    d.shapes.push_back(
        Text{kLeft - 4, axes.y(tick) + 2.5, y_ticks.text(tick), 7, Anchor::end, kInk});
  }
  for (const double tick : x_ticks.at) {
    d.shapes.push_back(Text{axes.x(tick), chart.height - kBottom + 11, x_ticks.text(tick), 7,
                            Anchor::middle, kInk});
  }
  d.shapes.push_back(
      Text{chart.width / 2, chart.height - 6, chart.x_label, 8, Anchor::middle, kInk});
  d.shapes.push_back(Text{4, kTop - 6, chart.y_label, 7, Anchor::start, kInk});
  if (chart.vertical) {
    const double x = axes.x(*chart.vertical);
    d.shapes.push_back(Line{{{x, kTop}, {x, chart.height - kBottom}}, kMark, 0.8, true});
    d.shapes.push_back(Text{x - 3, kTop + 7, chart.vertical_name, 7, Anchor::end, kMark});
  }
  if (chart.diagonal) {
    const auto [low, high] = axes.shown_x();
    d.shapes.push_back(
        Line{{{axes.x(low), axes.y(low)}, {axes.x(high), axes.y(high)}}, kMuted, 0.6, true});
  }
  auto [legend_x, legend] = legend_place(chart, axes);
  legend += 6;
  for (const Series& series : chart.series) {
    std::vector<std::pair<double, double>> points;
    for (const auto& [x, y] : series.points) points.emplace_back(axes.x(x), axes.y(y));
    // One point is no line.
    if (series.mark != Series::Mark::dots && points.size() > 1) {
      d.shapes.push_back(Line{points, series.colour, 1.2, series.mark == Series::Mark::dashed});
    }
    if (series.mark == Series::Mark::line || series.mark == Series::Mark::dots) {
      for (std::size_t i = 0; i < points.size(); ++i) {
        d.shapes.push_back(
            Dot{points[i].first, points[i].second, 2.2, series.colour,
                fmt::format("{}: {}, {}", series.name, format_figure(series.points[i].first, 4),
                            format_figure(series.points[i].second, 4))});
      }
    }
    if (!series.name.empty()) {
      d.shapes.push_back(Dot{legend_x + 6, legend - 2.5, 2.5, series.colour, ""});
      d.shapes.push_back(Text{legend_x + 12, legend, series.name, 7, Anchor::start, kInk});
      legend += 10;
    }
  }
  return d;
}

std::string chart_csv(const Chart& chart) {
  std::string text = "series,x,y\n";
  for (const Series& series : chart.series) {
    const std::string name = csv_quoted(series.name);
    for (const auto& [x, y] : series.points) text += fmt::format("{},{},{}\n", name, x, y);
  }
  return text;
}

std::pair<Chart, Chart> bubble_charts(const std::vector<BubblePoint>& points, int ranks) {
  Series formula{"(K-1)/(M+K-1)", {}, kMuted, Series::Mark::dashed};
  Series predicted{"predicted", {}, kBlue, Series::Mark::line};
  Series measured{"measured", {}, kRed, Series::Mark::dots};
  Series memory{"predicted", {}, kBlue, Series::Mark::line};
  for (const BubblePoint& p : points) {
    // GPipe's bubble (docs/theory.md 2.1), as what a schedule is held against.
    formula.points.emplace_back(p.microbatches, (ranks - 1.0) / (p.microbatches + ranks - 1.0));
    predicted.points.emplace_back(p.microbatches, p.predicted);
    if (p.measured) measured.points.emplace_back(p.microbatches, *p.measured);
    memory.points.emplace_back(p.microbatches, p.peak_memory_gib);
  }
  // GPipe's rule of thumb: from M = 4K on the bubble is small.
  Chart bubble{.title = fmt::format("Bubble, K = {}", ranks),
               .x_label = "micro-batches M",
               .y_label = "bubble fraction",
               .series = {formula, predicted},
               .log2_x = true,
               .vertical = 4.0 * ranks,
               .vertical_name = "M = 4K"};
  // The same axis for both charts: they are read together.
  Chart bytes = bubble;
  if (!measured.points.empty()) bubble.series.push_back(measured);
  bytes.title = "Peak memory of the fullest device";
  bytes.y_label = "GiB";
  bytes.series = {memory};
  return {bubble, bytes};
}

Drawing beside(const Drawing& left, const Drawing& right) {
  Drawing both{left.width + right.width, std::max(left.height, right.height), left.shapes};
  for (auto shape : right.shapes) {
    std::visit(
        [&](auto& s) {
          // Shapes differ in where they keep their places.
          if constexpr (requires { s.points; }) {
            for (auto& point : s.points) point.first += left.width;
          } else if constexpr (requires { s.boxes; }) {
            for (auto& box : s.boxes) box.first += left.width;
          } else {
            s.x += left.width;
          }
        },
        shape);
    both.shapes.push_back(std::move(shape));
  }
  return both;
}

}  // namespace weir
