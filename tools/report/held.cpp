// Counters of a trace as lines over time.
// SPDX-License-Identifier: Apache-2.0
#include "tools/report/held.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/report/font.hpp"
#include "tools/report/palette.hpp"
#include "tools/report/ticks.hpp"

namespace weir {
namespace {

constexpr std::size_t kMostLines = 8;
constexpr double kHeldText = 7, kHeldLegend = 12;

// Evenly chosen, the first and the last among them.
std::vector<const HeldBy*> chosen(const Held& held) {
  const std::size_t all = held.ranks.size(), most = std::min(all, kMostLines);
  std::vector<const HeldBy*> lines;
  for (std::size_t i = 0; i < most; ++i)
    lines.push_back(&held.ranks[most > 1 ? i * (all - 1) / (most - 1) : 0]);
  return lines;
}

// The unit that the axis counts in, and how much of the values it is.
struct HeldUnit {
  std::string name;
  double size;
};
HeldUnit unit_of(const Held& held, double highest) {
  if (held.unit == CounterUnit::count) return {"micro-batches in flight", double(held.of_rank)};
  const double gib = 1 << 30, mib = 1 << 20, kib = 1 << 10;
  if (highest >= gib) return {"memory, GiB", gib};
  if (highest >= mib) return {"memory, MiB", mib};
  return {"memory, KiB", kib};
}

// A step function's corners.
Line line_of(const HeldBy& rank, const HeldBand& band, double highest) {
  Line line{{}, {}, 0.9, false};
  const double base = band.top + band.height;
  for (const auto& [time, value] : rank.samples) {
    const double x = band.left + time * band.points_a_second;
    const double y = base - value / highest * band.height;
    if (!line.points.empty()) line.points.emplace_back(x, line.points.back().second);
    line.points.emplace_back(x, y);
  }
  return line;
}

}  // namespace

std::optional<Held> held_in(const Trace& trace, std::int32_t step) {
  const StepWindow& window = trace.steps[static_cast<std::size_t>(step)];
  // Memory where the trace has it, else what is in flight.
  for (const auto& [name, unit] :
       {std::pair("memory", CounterUnit::bytes), std::pair("in flight", CounterUnit::count)}) {
    Held held{unit, {}};
    for (const Counter& counter : trace.counters) {
      if (counter.name != name || counter.samples.empty()) continue;
      HeldBy rank{counter.rank, {}};
      // Steps repeat: before its first sample a rank holds what it does after its last.
      auto before = static_cast<double>(counter.samples.back().value);
      for (const Counter::Sample& sample : counter.samples) {
        const auto value = static_cast<double>(sample.value);
        // Samples ascend in time.
        if (sample.time > window.end) break;
        if (sample.time <= window.start) {
          before = value;
          continue;
        }
        if (rank.samples.empty()) rank.samples.emplace_back(0, before);
        rank.samples.emplace_back(to_seconds(sample.time - window.start).count(), value);
      }
      if (rank.samples.empty()) rank.samples.emplace_back(0, before);
      // To the step's end, as a line that stops would seem to fall.
      rank.samples.emplace_back(to_seconds(window.end - window.start).count(),
                                rank.samples.back().second);
      held.ranks.push_back(std::move(rank));
    }
    if (!held.ranks.empty()) return held;
  }
  return std::nullopt;
}

double draw_held(const Held& held, const HeldBand& within, Drawing& drawing) {
  double highest = 0;
  for (const HeldBy& rank : held.ranks) {
    for (const auto& [time, value] : rank.samples) highest = std::max(highest, value);
  }
  const HeldUnit unit = unit_of(held, highest);
  // A step without any memory still has an axis.
  highest = std::max(highest, unit.size);
  auto& shapes = drawing.shapes;
  shapes.push_back(
      Text{within.axis_left, within.top + 9, unit.name, kHeldText, Anchor::start, kInk});
  // Whose line is whose, in as many lines of text as that takes.
  const std::vector<const HeldBy*> lines = chosen(held);
  const auto count = static_cast<int>(lines.size());
  double x = within.axis_left + text_room(unit.name, kHeldText) + 10, y = within.top + 9;
  for (int i = 0; i < count; ++i) {
    const std::string name = fmt::format("rank {}", lines[static_cast<std::size_t>(i)]->rank.value);
    const double width = 12 + text_room(name, kHeldText) + 6;
    if (x + width > within.left + within.width) {
      x = within.left;
      y += kHeldLegend;
    }
    shapes.push_back(Line{{{x, y - 2.5}, {x + 9, y - 2.5}}, graded(i, count), 1.4, false});
    shapes.push_back(Text{x + 12, y, name, kHeldText, Anchor::start, kInk});
    x += width;
  }
  HeldBand band = within;
  band.top = y + 6;
  const Ticks ticks = round_ticks(0, highest / unit.size, 5);
  for (const double tick : ticks.at) {
    const double at = band.top + band.height - tick * unit.size / highest * band.height;
    shapes.push_back(Line{{{band.left, at}, {band.left + band.width, at}}, kGrid, 0.5, false});
    shapes.push_back(Text{band.left - 4, at + 2.5, ticks.text(tick), kHeldText, Anchor::end, kInk});
  }
  for (int i = 0; i < count; ++i) {
    Line line = line_of(*lines[static_cast<std::size_t>(i)], band, highest);
    line.colour = graded(i, count);
    shapes.push_back(std::move(line));
  }
  return band.top + band.height - within.top;
}

}  // namespace weir
