// SPDX-License-Identifier: Apache-2.0
#include "tools/report/chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace weir {
namespace {

constexpr Colour kGrid{225, 225, 225};
constexpr double kLeft = 46, kRight = 12, kTop = 24, kBottom = 34;

class Axes {
 public:
  explicit Axes(const Chart& chart) : chart_(chart) {
    low_x_ = low_y_ = 1e300;
    high_x_ = high_y_ = -1e300;
    for (const Series& series : chart.series) {
      for (const auto& [x, y] : series.points) {
        low_x_ = std::min(low_x_, place(x));
        high_x_ = std::max(high_x_, place(x));
        high_y_ = std::max(high_y_, y);
        low_y_ = std::min(low_y_, y);
      }
    }
    if (chart.vertical) high_x_ = std::max(high_x_, place(*chart.vertical));
    if (low_x_ > high_x_) low_x_ = low_y_ = 0, high_x_ = high_y_ = 1;
    if (!chart.diagonal) low_y_ = std::min(low_y_, 0.0);
    if (chart.diagonal) {
      low_x_ = low_y_ = std::min(low_x_, low_y_) * 0.95;
      high_x_ = high_y_ = std::max(high_x_, high_y_) * 1.05;
    }
    if (high_x_ == low_x_) high_x_ += 1;
    high_y_ = high_y_ == low_y_ ? low_y_ + 1 : high_y_ + (high_y_ - low_y_) * 0.05;
  }
  [[nodiscard]] double x(double value) const {
    return kLeft + (place(value) - low_x_) / (high_x_ - low_x_) * (chart_.width - kLeft - kRight);
  }
  [[nodiscard]] double y(double value) const {
    return chart_.height - kBottom -
           (value - low_y_) / (high_y_ - low_y_) * (chart_.height - kTop - kBottom);
  }
  [[nodiscard]] std::vector<double> x_ticks() const {
    std::vector<double> ticks;
    if (chart_.log2_x) {
      for (double e = std::ceil(low_x_); e <= high_x_ + 1e-9; ++e) ticks.push_back(std::exp2(e));
    } else {
      for (int i = 0; i <= 4; ++i) ticks.push_back(low_x_ + (high_x_ - low_x_) * i / 4);
    }
    return ticks;
  }
  [[nodiscard]] std::vector<double> y_ticks() const {
    std::vector<double> ticks;
    for (int i = 0; i <= 4; ++i) ticks.push_back(low_y_ + (high_y_ - low_y_) * i / 4);
    return ticks;
  }
  [[nodiscard]] std::pair<double, double> ends() const { return {low_x_, high_x_}; }

 private:
  [[nodiscard]] double place(double x) const { return chart_.log2_x ? std::log2(x) : x; }
  const Chart& chart_;
  double low_x_, high_x_, low_y_, high_y_;
};

}  // namespace

Drawing draw_chart(const Chart& chart) {
  const Axes axes(chart);
  Drawing d{chart.width, chart.height, {}};
  d.shapes.push_back(Text{chart.width / 2, 12, chart.title, 9, Anchor::middle, kInk});
  for (const double tick : axes.y_ticks()) {
    d.shapes.push_back(
        Line{{{kLeft, axes.y(tick)}, {chart.width - kRight, axes.y(tick)}}, kGrid, 0.5, false});
    d.shapes.push_back(
        Text{kLeft - 4, axes.y(tick) + 2.5, fmt::format("{:.3g}", tick), 7, Anchor::end, kInk});
  }
  for (const double tick : axes.x_ticks()) {
    d.shapes.push_back(Text{axes.x(tick), chart.height - kBottom + 11, fmt::format("{:.3g}", tick),
                            7, Anchor::middle, kInk});
  }
  d.shapes.push_back(
      Text{chart.width / 2, chart.height - 6, chart.x_label, 8, Anchor::middle, kInk});
  d.shapes.push_back(Text{4, kTop - 6, chart.y_label, 7, Anchor::start, kInk});
  if (chart.vertical) {
    const double x = axes.x(*chart.vertical);
    d.shapes.push_back(Line{{{x, kTop}, {x, chart.height - kBottom}}, {190, 60, 60}, 0.8, true});
    d.shapes.push_back(Text{x - 3, kTop + 7, chart.vertical_name, 7, Anchor::end, {190, 60, 60}});
  }
  if (chart.diagonal) {
    const auto [low, high] = axes.ends();
    d.shapes.push_back(Line{
        {{axes.x(low), axes.y(low)}, {axes.x(high), axes.y(high)}}, {150, 150, 150}, 0.6, true});
  }
  double legend = kTop + 6;
  for (const Series& series : chart.series) {
    std::vector<std::pair<double, double>> points;
    for (const auto& [x, y] : series.points) points.emplace_back(axes.x(x), axes.y(y));
    if (series.mark != Series::Mark::dots && points.size() > 1) {
      d.shapes.push_back(Line{points, series.colour, 1.2, series.mark == Series::Mark::dashed});
    }
    if (series.mark == Series::Mark::line || series.mark == Series::Mark::dots) {
      for (std::size_t i = 0; i < points.size(); ++i) {
        d.shapes.push_back(Dot{points[i].first, points[i].second, 2.2, series.colour,
                               fmt::format("{}: {:.4g}, {:.4g}", series.name,
                                           series.points[i].first, series.points[i].second)});
      }
    }
    if (!series.name.empty()) {
      d.shapes.push_back(Dot{chart.width - kRight - 96, legend - 2.5, 2.5, series.colour, ""});
      d.shapes.push_back(
          Text{chart.width - kRight - 90, legend, series.name, 7, Anchor::start, kInk});
      legend += 10;
    }
  }
  return d;
}

std::string chart_csv(const Chart& chart) {
  std::string text = "series,x,y\n";
  for (const Series& series : chart.series) {
    for (const auto& [x, y] : series.points) text += fmt::format("{},{},{}\n", series.name, x, y);
  }
  return text;
}

std::pair<Chart, Chart> bubble_charts(const std::vector<BubblePoint>& points, int ranks) {
  Series formula{"(K-1)/(M+K-1)", {}, {150, 150, 150}, Series::Mark::dashed};
  Series predicted{"predicted", {}, {86, 141, 208}, Series::Mark::line};
  Series measured{"measured", {}, {200, 90, 60}, Series::Mark::dots};
  Series memory{"predicted", {}, {86, 141, 208}, Series::Mark::line};
  for (const BubblePoint& p : points) {
    formula.points.emplace_back(p.microbatches, (ranks - 1.0) / (p.microbatches + ranks - 1.0));
    predicted.points.emplace_back(p.microbatches, p.predicted);
    if (p.measured) measured.points.emplace_back(p.microbatches, *p.measured);
    memory.points.emplace_back(p.microbatches, p.peak_memory_gib);
  }
  Chart bubble{fmt::format("Bubble, K = {}", ranks),
               "micro-batches M",
               "bubble fraction",
               {formula, predicted},
               true,
               4.0 * ranks,
               "M = 4K",
               false,
               360,
               240};
  if (!measured.points.empty()) bubble.series.push_back(measured);
  const Chart bytes{"Peak memory of the fullest device",
                    "micro-batches M",
                    "GiB",
                    {memory},
                    true,
                    4.0 * ranks,
                    "M = 4K",
                    false,
                    360,
                    240};
  return {bubble, bytes};
}

Drawing beside(const Drawing& left, const Drawing& right) {
  Drawing both{left.width + right.width, std::max(left.height, right.height), left.shapes};
  for (auto shape : right.shapes) {
    std::visit(
        [&](auto& s) {
          if constexpr (requires { s.points; }) {
            for (auto& point : s.points) point.first += left.width;
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
