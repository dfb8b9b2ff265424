// Boxes of a step's compute actions, by rank and time.
// SPDX-License-Identifier: Apache-2.0
#include "tools/report/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "plan/text/cells.hpp"
#include "plan/text/quote.hpp"
#include "tools/report/font.hpp"
#include "tools/report/held.hpp"
#include "tools/report/ticks.hpp"

namespace weir {
namespace {

constexpr double kRankRow = 14, kRowGap = 2, kBlockGap = 4, kPanelTitle = 18, kScale = 20,
                 kLegend = 13;
constexpr double kRightEdge = 14, kBand = 60, kPanelGap = 8;
constexpr double kNameSize = 7.5, kTickSize = 7, kActionSize = 6.5;
constexpr double kTwoLines = 5, kShaded = 6;  // a label of two lines; the shaded foot of a box
// Boxes with tips take some 90 bytes each as SVG: more of them are no picture to point at.
constexpr std::size_t kMostTips = 16'384;
constexpr Paint kIdle{{244, 244, 244}, {40, 43, 48}};

const StepWindow& window_of(const TimelineRow& row) {
  return row.trace->steps[static_cast<std::size_t>(row.step)];
}

template <class Visit>
void for_compute(const TimelineRow& row, Visit visit) {
  const StepWindow& window = window_of(row);
  for (const Span& span : row.trace->spans) {
    if (span.step == row.step && span.lane == LaneKind::compute) visit(span, window);
  }
}

std::string row_name(const TimelineRow& row, std::int32_t rank) {
  std::string name = fmt::format("rank {}", rank);
  if (const std::string note = note_of_rank(*row.trace, rank); !note.empty()) name += " " + note;
  return row.label.empty() ? name : name + " " + row.label;
}

// Viewers without the font write a little wider.
bool fits(const std::string& text, double size, double room) {
  return text_room(text, size) + 1 < room;
}

// What is written on a box `room` wide: the action's name; where that does not fit, and ranks have
// several stages, its stage over its micro-batch; else that number; else nothing.
std::vector<Text> labels_of(const Action& action, double x, double y, double room, bool stages) {
  const auto line = [&](double down, std::string text, double size) {
    return Text{x, y + down, std::move(text), size, Anchor::middle, {}};
  };
  std::string name = to_string(action);
  if (fits(name, kActionSize, room)) return {line(9.5, std::move(name), kActionSize)};
  if (!has_microbatch(action.kind)) return {};
  std::string number = std::to_string(action.microbatch.value);
  std::string stage = std::to_string(action.stage.value);  // its kind is its colour
  if (stages && fits(stage, kTwoLines, room) && fits(number, kTwoLines, room))
    return {line(6, std::move(stage), kTwoLines), line(12.3, std::move(number), kTwoLines)};
  if (fits(number, kActionSize, room)) return {line(9.5, std::move(number), kActionSize)};
  return {};
}

// A drawing that grows downward, panel by panel.
class TimelineDrawing {
 public:
  TimelineDrawing(std::span<const TimelinePanel> panels, const TimelineOptions& options)
      : options_(options) {
    drawing_.width = options.width;
    y_ = 4;
    for (const TimelinePanel& panel : panels) {
      // First all rows are measured: one scale and one margin serve all panels.
      for (const TimelineRow& row : panel.rows) {
        const StepWindow& window = window_of(row);
        longest_ = std::max(longest_, to_seconds(window.end - window.start).count());
        for (std::int32_t rank = 0; rank < row.trace->ranks; ++rank) {
          // The last has the most digits, one with a note the most letters.
          const bool noted = !note_of_rank(*row.trace, rank).empty();
          if (!noted && rank + 1 < row.trace->ranks) continue;
          const std::string name = row_name(row, rank);
          names_ = std::max(names_, 8 + text_room(name, kNameSize));
        }
        for_compute(row, [&](const Span& span, const StepWindow&) {
          ++actions_;
          seen_[span.action.kind] = true;
          shaded_ = shaded_ || is_shaded(span.action, row.trace->ranks);
        });
      }
    }
    // A step of no length would divide by zero.
    longest_ = std::max(longest_, 1e-12);
    scale_ = (options.width - names_ - kRightEdge) / longest_;
  }

  void add(const TimelinePanel& panel) {
    if (!panel.title.empty()) {
      text(
          {4, y_ + 8, panel.title, std::min(10.0, fitting_size(panel.title)), Anchor::start, kInk});
      y_ += kPanelTitle - 4;
    }
    std::int32_t ranks = 0;
    for (const TimelineRow& row : panel.rows) ranks = std::max(ranks, row.trace->ranks);
    // Rows of one rank lie together, predicted above measured.
    const double block = static_cast<double>(panel.rows.size()) * (kRankRow + kRowGap) + kBlockGap;
    for (std::size_t r = 0; r < panel.rows.size(); ++r)
      add_row(panel.rows[r], y_ + static_cast<double>(r) * (kRankRow + kRowGap), block);
    y_ += ranks * block;
    auto held =
        options_.held ? held_in(*panel.rows.front().trace, panel.rows.front().step) : std::nullopt;
    if (held) {
      held->of_rank = panel.of_rank;
      const HeldBand band{.left = names_,
                          .top = y_,
                          .width = longest_ * scale_,
                          .height = kBand,
                          .points_a_second = scale_,
                          .axis_left = 4};
      y_ += draw_held(*held, band, drawing_) + kPanelGap;
    }
  }

  void skip() { y_ += kPanelGap; }

  // The scale of time, and what the colours mean.
  [[nodiscard]] Drawing finished() {
    add_scale();
    add_legend();
    drawing_.height = y_;
    return std::move(drawing_);
  }

 private:
  void text(Text shape) { drawing_.shapes.emplace_back(std::move(shape)); }
  [[nodiscard]] double fitting_size(const std::string& title) const {
    return (options_.width - 8) / std::max(text_room(title, 1), 1.0);
  }

  // All of one colour after each other, then what is written on them.
  void add_row(const TimelineRow& row, double top, double block) {
    const auto y_of = [&](Rank rank) { return top + rank.value * block; };
    for (std::int32_t rank = 0; rank < row.trace->ranks; ++rank)
      text({4, y_of(Rank{rank}) + 10, row_name(row, rank), kNameSize, Anchor::start, kInk});
    for (std::int32_t rank = 0; rank < row.trace->ranks; ++rank)
      drawing_.shapes.push_back(
          Box{names_, y_of(Rank{rank}), longest_ * scale_, kRankRow, kIdle, ""});
    PerKind<std::vector<Box>> boxes, feet;
    std::vector<Text> labels;
    PerKind<std::vector<Bars>> bars;
    for (const ActionKind kind : kComputeKinds) {
      // A list for each rank, so that many boxes become one shape.
      for (std::int32_t rank = 0; rank < row.trace->ranks; ++rank)
        bars[kind].push_back({y_of(Rank{rank}), kRankRow, {}, colours(options_.palette)[kind]});
    }
    for_compute(row, [&](const Span& span, const StepWindow& window) {
      const ActionKind kind = span.action.kind;
      const double x = names_ + to_seconds(span.start - window.start).count() * scale_;
      // At least a hair: the shortest action is still to be seen.
      const double width = std::max(to_seconds(span.duration()).count() * scale_, 0.05);
      const double shown = width > 2 ? width - 0.4 : width;  // neighbours stay apart to the eye
      const Paint& fill = colours(options_.palette)[kind];
      const double y = y_of(span.rank);
      // Tips cost a shape each: pictures of very many actions go without.
      if (actions_ > kMostTips) {
        bars[kind][static_cast<std::size_t>(span.rank.value)].boxes.emplace_back(x, shown);
      } else {
        boxes[kind].push_back({x, y, shown, kRankRow, fill,
                               fmt::format("{} {}", to_string(span.action),
                                           format_duration(to_seconds(span.duration())))});
      }
      if (is_shaded(span.action, row.trace->ranks))
        feet[kind].push_back({x, y + kRankRow - kShaded, shown, kShaded, shade_of(fill), ""});
      for (Text& label : labels_of(span.action, x + width / 2, y, width, shaded_)) {
        label.colour = label_on(fill);
        labels.push_back(std::move(label));
      }
    });
    for (const ActionKind kind : kComputeKinds) {
      for (Box& box : boxes[kind]) drawing_.shapes.emplace_back(std::move(box));
      for (Bars& rank : bars[kind]) {
        if (!rank.boxes.empty()) drawing_.shapes.emplace_back(std::move(rank));
      }
      for (Box& foot : feet[kind]) drawing_.shapes.emplace_back(std::move(foot));
    }
    // Labels last: nothing may cover them.
    for (Text& label : labels) text(std::move(label));
  }

  void add_scale() {
    struct Unit {
      const char* name;
      double size;
    };
    constexpr Unit kUnits[] = {{" s", 1}, {" ms", 1e-3}, {" us", 1e-6}, {" ns", 1e-9}};
    const auto* unit =
        std::ranges::find_if(kUnits, [this](const Unit& u) { return longest_ >= u.size; });
    // Below a nanosecond there is no smaller unit.
    if (unit == std::end(kUnits)) --unit;
    const double width = longest_ * scale_;
    drawing_.shapes.push_back(Line{{{names_, y_ + 2}, {names_ + width, y_ + 2}}, kInk, 0.6, false});
    const Ticks ticks = ticks_with_room(longest_ / unit->size, width, kTickSize, unit->name);
    for (const double tick : ticks.at) {
      const double x = names_ + tick * unit->size * scale_;
      drawing_.shapes.push_back(Line{{{x, y_ + 2}, {x, y_ + 5}}, kInk, 0.6, false});
      text({x, y_ + 13, tick == 0 ? "0" : ticks.text(tick) + unit->name, kTickSize, Anchor::middle,
            kInk});
    }
    y_ += kScale;
  }

  // Of the kinds that are there, in as many lines as they take.
  void add_legend() {
    double x = 4;
    const auto add = [&](const std::string& name, const Paint& fill, double height) {
      const double width = 10 + text_room(name, kTickSize) + 8;
      // The next line, unless this one is empty.
      if (x > 4 && x + width > options_.width) {
        x = 4;
        y_ += kLegend;
      }
      drawing_.shapes.push_back(Box{x, y_ + 8 - height, 7, height, fill, ""});
      text({x + 10, y_ + 7, name, kTickSize, Anchor::start, kInk});
      x += width;
    };
    for (const ActionKind kind : kComputeKinds) {
      if (seen_[kind]) add(std::string(legend_of(kind)), colours(options_.palette)[kind], 7);
    }
    if (shaded_)
      add("foot: a rank's second stage", shade_of(colours(options_.palette)[ActionKind::F]), 3);
    y_ += kLegend;
  }

  const TimelineOptions& options_;
  Drawing drawing_;
  double names_ = 0;    // the width of what stands left of the time
  double longest_ = 0;  // of the steps, in seconds
  double scale_ = 0;    // points a second
  double y_ = 0;        // where the next thing goes
  std::size_t actions_ = 0;
  PerKind<bool> seen_;
  bool shaded_ = false;  // ranks have several stages
};

}  // namespace

bool is_shaded(const Action& action, std::int32_t ranks) {
  return has_microbatch(action.kind) && action.stage.value / ranks % 2 == 1;
}

std::string note_of_rank(const Trace& trace, std::int32_t rank) {
  const auto written = trace.info.find("predicts");
  if (written == trace.info.end()) return "";
  std::string_view rest = written->second;
  for (std::int32_t r = 0; r < rank; ++r) {
    const auto comma = rest.find(',');
    if (comma == std::string_view::npos) return "";
    rest.remove_prefix(comma + 1);
  }
  // A file's text may be anything: what is no number is nothing to draw.
  const auto count = whole_number<int>(std::string(rest.substr(0, rest.find(','))));
  return count && *count > 0 ? fmt::format("predicts {}", *count) : std::string();
}

Drawing draw_timeline(std::span<const TimelinePanel> panels, const TimelineOptions& options) {
  TimelineDrawing drawing(panels, options);
  for (const TimelinePanel& panel : panels) {
    if (&panel != &panels.front()) drawing.skip();
    drawing.add(panel);
  }
  return drawing.finished();
}

std::string timeline_csv(std::span<const TimelinePanel> panels, bool held) {
  std::string text =
      held ? "rank,label,action,start_s,end_s,value\n" : "rank,label,action,start_s,end_s\n";
  const char* const end = held ? ",\n" : "\n";
  for (const TimelinePanel& panel : panels) {
    for (const TimelineRow& row : panel.rows) {
      // One panel's title would say nothing that the file's name does not.
      const bool titled = row.label.empty() && panels.size() > 1;
      const std::string label = csv_quoted(titled ? panel.title : row.label);
      for_compute(row, [&](const Span& span, const StepWindow& window) {
        text += fmt::format("{},{},{},{:.9f},{:.9f}{}", span.rank.value, label,
                            to_string(span.action), to_seconds(span.start - window.start).count(),
                            to_seconds(span.end - window.start).count(), end);
      });
      const auto lines = held ? held_in(*row.trace, row.step) : std::nullopt;
      if (!lines) continue;
      const char* const what = lines->unit == CounterUnit::bytes ? "memory_bytes" : "in_flight";
      for (const HeldBy& rank : lines->ranks) {
        // From one sample to the next the value holds.
        for (std::size_t i = 0; i + 1 < rank.samples.size(); ++i)
          text +=
              fmt::format("{},{},{},{:.9f},{:.9f},{:.0f}\n", rank.rank.value, label, what,
                          rank.samples[i].first, rank.samples[i + 1].first, rank.samples[i].second);
      }
    }
  }
  return text;
}

}  // namespace weir
