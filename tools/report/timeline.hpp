// Timelines as drawings: one row a rank and trace, predicted above measured. Start at draw_timeline
// in timeline.cpp; what ranks hold over time is drawn by held.cpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tools/report/palette.hpp"
#include "tools/report/vector.hpp"
#include "traces/trace.hpp"

namespace weir {

struct TimelineRow {
  const Trace* trace = nullptr;
  std::int32_t step = 0;
  std::string label;  // "predicted"
};

// What stands together: rank 0 of each row, one above the other, then rank 1 of each, and so on.
struct TimelinePanel {
  std::string title;  // empty: none
  std::vector<TimelineRow> rows;
  int of_rank =
      1;  // stage-micro-batches that are a micro-batch of a whole rank: v times the slices
};

struct TimelineOptions {
  double width = 720;  // points
  Palette palette = Palette::standard;
  bool held = false;  // under each panel what the ranks of its first row hold, where that is known
};

// What stands on a rank beside its blocks, as its trace has it (`info`: predicts), "predicts 2"; ""
// where it is nothing, or not known.
[[nodiscard]] std::string note_of_rank(const Trace& trace, std::int32_t rank);

// Panels stand under each other on one scale of time; idle is grey. An action's name is written
// where it fits, in two lines where ranks have several stages, else the number of its micro-batch
// where that fits. Each action has a tip, unless there are more than 16,384.
[[nodiscard]] Drawing draw_timeline(std::span<const TimelinePanel> panels,
                                    const TimelineOptions& options);

// Every other stage of a rank is shaded, so that a V's way back is told from its way there.
[[nodiscard]] bool is_shaded(const Action& action, std::int32_t ranks);

// rank, label, action, start_s, end_s; and with `held` value, of which each sample is a line (its
// action: memory_bytes or in_flight). The label is the row's, or else its panel's title.
[[nodiscard]] std::string timeline_csv(std::span<const TimelinePanel> panels, bool held = false);

}  // namespace weir
