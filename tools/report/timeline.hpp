// Timelines as drawings: one row a rank and trace, predicted above measured.
// SPDX-License-Identifier: Apache-2.0
#pragma once

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
struct TimelineOptions {
  double width = 720;  // points
  std::string title;   // empty: none
  bool labels = true;  // action names where they fit
};

// Colours: F blue, B green, I teal, W light green, R orange, optimizer grey; idle is white. All rows share one scale.
[[nodiscard]] Drawing draw_timeline(std::span<const TimelineRow> rows, const TimelineOptions& options);
// rank, label, action, start_s, end_s.
[[nodiscard]] std::string timeline_csv(std::span<const TimelineRow> rows);

}  // namespace weir
