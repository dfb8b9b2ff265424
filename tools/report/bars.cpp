// Bars as shapes: a label, its bars under each other, and the axis below all of them.
// SPDX-License-Identifier: Apache-2.0
#include "tools/report/bars.hpp"

#include <algorithm>
#include <array>

#include "tools/report/font.hpp"
#include "tools/report/ticks.hpp"

namespace weir {
namespace {

constexpr double kEdge = 4, kTitle = 9, kText = 7.5, kTick = 7;
constexpr double kLine = 11, kBar = 8, kBetween = 2, kGap = 4;  // heights
constexpr double kLeast = 300;  // of bars beside which labels may stand

double widest(const std::vector<std::string>& texts) {
  double width = 0;
  for (const std::string& text : texts) width = std::max(width, text_room(text, kText));
  return width;
}

struct Unit {
  const char* name;
  double size;  // seconds
};
Unit unit_of(double longest) {
  constexpr std::array kUnits{Unit{" s", 1}, Unit{" ms", 1e-3}, Unit{" us", 1e-6}};
  const auto* unit =
      std::ranges::find_if(kUnits, [longest](const Unit& u) { return longest >= u.size; });
  return unit == kUnits.end() ? Unit{" ns", 1e-9} : *unit;
}

class BarsDrawn {
 public:
  explicit BarsDrawn(const BarChart& chart) : chart_(chart) {
    std::vector<std::string> labels, texts;
    for (const BarRow& row : chart.rows) {
      labels.push_back(row.label);
      for (const Bar& bar : row.bars) {
        texts.push_back(bar.text);
        cover(bar.from);
        cover(bar.to);
        if (bar.interval) cover(bar.interval->second);
        if (bar.mark) cover(*bar.mark);
      }
    }
    if (longest_ <= 0) longest_ = 1;  // nothing takes time: an axis all the same
    const double text = widest(texts);
    right_ = chart.width - kEdge - (text > 0 ? text + kGap : 0);
    const double beside = widest(labels) + 2 * kEdge;
    above_ = chart.labels_above || right_ - beside < kLeast;
    left_ = above_ ? kEdge : beside;
    // The last tick's number reaches beyond its place.
    if (text == 0) right_ -= 2 * kEdge;
  }

  Drawing drawn() {
    double y = kEdge;
    if (!chart_.title.empty()) {
      add(Text{chart_.width / 2, y + 8, chart_.title, kTitle, Anchor::middle, kInk});
      y += kLine + kGap;
    }
    if (!chart_.legend.empty()) y = legend(y);
    for (const BarRow& row : chart_.rows) y = draw(row, y);
    axis(y);
    drawing_.width = chart_.width;
    drawing_.height = y + 5 + kLine;
    return std::move(drawing_);
  }

 private:
  void cover(Seconds time) { longest_ = std::max(longest_, time.count()); }
  // What takes time off more than there is would begin before zero.
  [[nodiscard]] double x(Seconds time) const {
    return left_ + std::clamp(time.count() / longest_, 0.0, 1.0) * (right_ - left_);
  }
  template <class Shape>
  void add(Shape shape) {
    drawing_.shapes.push_back(std::move(shape));
  }

  [[nodiscard]] double height_of(const BarRow& row) const {
    const double bars = static_cast<double>(row.bars.size()) * (kBar + kBetween);
    return (above_ ? kLine : 0) + bars + kGap;
  }

  double legend(double y) {
    double at = left_;
    for (const auto& [name, fill] : chart_.legend) {
      const double width = 10 + text_room(name, kText) + 8;
      // The next line, unless this one is empty.
      if (at > left_ && at + width > chart_.width) {
        at = left_;
        y += kLine;
      }
      add(Box{at, y + 1, 7, 7, fill, ""});
      add(Text{at + 10, y + 7.5, name, kText, Anchor::start, kInk});
      at += width;
    }
    return y + kLine + kGap;
  }

  double draw(const BarRow& row, double y) {
    if (above_) {
      add(Text{left_, y + 7.5, row.label, kText, Anchor::start, kInk});
    } else {
      add(Text{left_ - kEdge, y + kBar - 1, row.label, kText, Anchor::end, kInk});
    }
    double at = y + (above_ ? kLine : 0);
    // First, for bars lie upon it; not behind a label.
    grid(at - kBetween, y + height_of(row) - kGap);
    for (const Bar& bar : row.bars) {
      draw(bar, at);
      at += kBar + kBetween;
    }
    return y + height_of(row);
  }

  void draw(const Bar& bar, double y) {
    const double from = x(std::min(bar.from, bar.to)), to = x(std::max(bar.from, bar.to));
    // What is less than can be seen is seen, too, but for nothing at all.
    if (bar.from != bar.to) add(Box{from, y, std::max(to - from, 0.6), kBar, bar.fill, ""});
    const double middle = y + kBar / 2;
    if (bar.interval) {
      const double low = x(bar.interval->first), high = x(bar.interval->second);
      add(Line{{{low, middle}, {high, middle}}, kInk, 1, false});
      for (const double end : {low, high})
        add(Line{{{end, y + 1}, {end, y + kBar - 1}}, kInk, 1, false});
    }
    if (bar.mark) {
      const double at = x(*bar.mark);
      add(Line{{{at, y - 1}, {at, y + kBar + 1}}, kRed, 2, false});
    }
    if (!bar.text.empty())
      add(Text{chart_.width - kEdge, y + kBar - 1, bar.text, kText, Anchor::end, kInk});
  }

  [[nodiscard]] Ticks ticks() const {
    const Unit unit = unit_of(longest_);
    return ticks_with_room(longest_ / unit.size, right_ - left_, kTick, unit.name);
  }
  void grid(double top, double bottom) {
    const Unit unit = unit_of(longest_);
    for (const double tick : ticks().at) {
      const double at = x(Seconds(tick * unit.size));
      add(Line{{{at, top}, {at, bottom}}, kGrid, 0.5, false});
    }
  }
  void axis(double y) {
    const Unit unit = unit_of(longest_);
    const Ticks all = ticks();
    add(Line{{{left_, y}, {right_, y}}, kInk, 0.6, false});
    for (const double tick : all.at) {
      const double at = x(Seconds(tick * unit.size));
      add(Line{{{at, y}, {at, y + 3}}, kInk, 0.6, false});
      const std::string text = tick == 0 ? "0" : all.text(tick) + unit.name;
      add(Text{at, y + 11, text, kTick, Anchor::middle, kInk});
    }
  }

  const BarChart& chart_;
  double longest_ = 0, left_ = 0, right_ = 0;
  bool above_ = false;
  Drawing drawing_;
};

}  // namespace

Drawing draw_bars(const BarChart& chart) { return BarsDrawn(chart).drawn(); }

}  // namespace weir
