// What ranks hold over a step, as lines under its timeline: bytes where they are known, else
// stage-micro-batches in flight.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/report/vector.hpp"
#include "traces/trace.hpp"

namespace weir {

// One rank's samples within a step: seconds from its start, and the value from there on; the first
// is at 0 and the last, a repetition, at its end.
struct HeldBy {
  Rank rank;
  std::vector<std::pair<double, double>> samples;
};
struct Held {
  CounterUnit unit = CounterUnit::count;  // of the values: bytes, or stage-micro-batches
  int of_rank = 1;  // stage-micro-batches that are a micro-batch of a whole rank, as drawn
  std::vector<HeldBy> ranks;
};

// Of the counters "memory", or else "in flight"; nothing where the trace has neither.
[[nodiscard]] std::optional<Held> held_in(const Trace& trace, std::int32_t step);

// A band of a drawing: where its lines are, and how many points a second takes.
struct HeldBand {
  double left = 0, top = 0, width = 0, height = 0;
  double points_a_second = 1;
  double axis_left = 0;  // room for what the axis says ends at `left`
};

// Draws at most eight ranks, evenly chosen with the first and the last, and says in a line which
// colour is whose. Returns the height it took: that line's, and the band's.
double draw_held(const Held& held, const HeldBand& band, Drawing& drawing);

}  // namespace weir
