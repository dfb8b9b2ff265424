// Boxes of a step's compute actions, by rank and time.
// SPDX-License-Identifier: Apache-2.0
#include "tools/report/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "plan/words/per_kind.hpp"

namespace weir {
namespace {

constexpr double kRow = 14, kGap = 2, kNames = 92, kTitle = 18, kScale = 24;

constexpr PerKind<Colour> kStandard{.f = {86, 141, 208},
                                    .i = {70, 160, 160},
                                    .w = {160, 205, 130},
                                    .b = {88, 165, 100},
                                    .r = {235, 160, 70},
                                    .optimizer = {150, 150, 150}};
constexpr PerKind<Colour> kColourBlind{.f = {0, 114, 178},
                                       .i = {86, 180, 233},
                                       .w = {240, 228, 66},
                                       .b = {0, 158, 115},
                                       .r = {213, 94, 0},
                                       .optimizer = {150, 150, 150}};
constexpr PerKind<Colour> kGrey{.f = {70, 70, 70},
                                .i = {120, 120, 120},
                                .w = {205, 205, 205},
                                .b = {150, 150, 150},
                                .r = {180, 180, 180},
                                .optimizer = {225, 225, 225}};

const PerKind<Colour>& colours(Palette palette) {
  switch (palette) {
    case Palette::colour_blind:
      return kColourBlind;
    case Palette::grey:
      return kGrey;
    default:
      return kStandard;
  }
}

// Names are written in white on dark boxes and in ink on light ones.
Colour label_on(const Colour& fill) {
  const double brightness = 0.299 * fill.red + 0.587 * fill.green + 0.114 * fill.blue;
  return brightness < 165 ? Colour{255, 255, 255} : kInk;
}

template <class Visit>
void for_compute(const TimelineRow& row, Visit visit) {
  const StepWindow& window = row.trace->steps[static_cast<std::size_t>(row.step)];
  for (const Span& span : row.trace->spans) {
    if (span.step == row.step && span.lane == LaneKind::compute) visit(span, window);
  }
}

}  // namespace

Drawing draw_timeline(std::span<const TimelineRow> rows, const TimelineOptions& options) {
  Drawing drawing;
  drawing.width = options.width;
  double longest = 0;
  std::int32_t ranks = 0;
  for (const TimelineRow& row : rows) {
    const StepWindow& window = row.trace->steps[static_cast<std::size_t>(row.step)];
    longest = std::max(longest, to_seconds(window.end - window.start).count());
    ranks = std::max(ranks, row.trace->ranks);
  }
  const double top = options.title.empty() ? 4 : kTitle;
  const double scale = (options.width - kNames - 24) / std::max(longest, 1e-12);
  const auto row_count = static_cast<double>(rows.size());
  const double block = row_count * (kRow + kGap) + 4;
  drawing.height = top + ranks * block + kScale;
  if (!options.title.empty())
    drawing.shapes.push_back(Text{4, 12, options.title, 10, Anchor::start, kInk});
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const auto y_of = [&](std::int32_t rank) {
      return top + rank * block + static_cast<double>(r) * (kRow + kGap);
    };
    for (std::int32_t rank = 0; rank < rows[r].trace->ranks; ++rank) {
      drawing.shapes.push_back(Text{4, y_of(rank) + 10,
                                    fmt::format("rank {} {}", rank, rows[r].label), 7.5,
                                    Anchor::start, kInk});
      drawing.shapes.push_back(Box{kNames, y_of(rank), longest * scale, kRow, {244, 244, 244}, ""});
    }
    for_compute(rows[r], [&](const Span& span, const StepWindow& window) {
      const double x = kNames + to_seconds(span.start - window.start).count() * scale;
      const double width = std::max(to_seconds(span.duration()).count() * scale, 0.05);
      const std::string name = to_string(span.action);
      const Colour fill = colours(options.palette)[span.action.kind];
      const double gap = width > 2 ? 0.4 : 0;  // neighbours stay apart to the eye
      drawing.shapes.push_back(
          Box{x, y_of(span.rank.value), width - gap, kRow, fill,
              fmt::format("{} {}", name, format_duration(to_seconds(span.duration())))});
      if (options.labels && width > 4.2 * static_cast<double>(name.size())) {
        drawing.shapes.push_back(Text{x + width / 2, y_of(span.rank.value) + 9.5, name, 6.5,
                                      Anchor::middle, label_on(fill)});
      }
    });
  }
  const double axis = drawing.height - kScale + 2;
  drawing.shapes.push_back(
      Line{{{kNames, axis}, {kNames + longest * scale, axis}}, kInk, 0.6, false});
  for (int tick = 0; tick <= 5; ++tick) {
    const double x = kNames + longest * scale * tick / 5;
    drawing.shapes.push_back(Line{{{x, axis}, {x, axis + 3}}, kInk, 0.6, false});
    drawing.shapes.push_back(
        Text{x, axis + 12, format_duration(Seconds(longest * tick / 5)), 7, Anchor::middle, kInk});
  }
  return drawing;
}

std::string timeline_csv(std::span<const TimelineRow> rows) {
  std::string text = "rank,label,action,start_s,end_s\n";
  for (const TimelineRow& row : rows) {
    for_compute(row, [&](const Span& span, const StepWindow& window) {
      text += fmt::format("{},{},{},{:.9f},{:.9f}\n", span.rank.value, row.label,
                          to_string(span.action), to_seconds(span.start - window.start).count(),
                          to_seconds(span.end - window.start).count());
    });
  }
  return text;
}

}  // namespace weir
