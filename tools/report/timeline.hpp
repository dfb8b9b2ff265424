// Timelines as drawings: one row a rank and trace, predicted above measured.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tools/report/vector.hpp"
#include "traces/trace.hpp"

namespace weir {

struct TimelineRow {
  const Trace* trace = nullptr;
  std::int32_t step = 0;
  std::string label;  // "predicted"
};
// standard; safe for colour-blind readers (Okabe & Ito, Color Universal Design, 2008); greys for
// print.
enum class Palette : std::uint8_t { standard, colour_blind, grey };

struct TimelineOptions {
  double width = 720;  // points
  std::string title;   // empty: none
  bool labels = true;  // action names where they fit
  Palette palette = Palette::standard;
};

// Standard colours: F blue, B green, I teal, W light green, R orange, optimizer grey; idle is
// white. All rows share one scale.
[[nodiscard]] Drawing draw_timeline(std::span<const TimelineRow> rows,
                                    const TimelineOptions& options);
// rank, label, action, start_s, end_s.
[[nodiscard]] std::string timeline_csv(std::span<const TimelineRow> rows);

}  // namespace weir
