// Durations that the user gives instead of a model: the same for every stage (--uniform), or stage
// by stage from a file (--times).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "costmodel/table/cost_table.hpp"
#include "plan/schedule/schedule.hpp"
#include "plan/words/units.hpp"

namespace weir {

// Durations of a rank's F, I and W for one micro-batch, and of a crossing, which occupies nothing;
// and of the passes S and T of a shard of the vocabulary, where there are some: half of F each
// where nothing is said. Their collectives take no time.
struct UniformTimes {
  Seconds f{1e-3}, i{1e-3}, w{1e-3}, latency{0};
  std::optional<Seconds> s{}, t{};
};

// docs/design.md 7: each of a rank's v chunks takes 1/v, rounded to ns; B = I + W; the latency is
// not scaled. A rank of a replicated schedule holds a stage of each replica, and a micro-batch
// visits one of them; a slice of a sequence takes its share of the micro-batch.
[[nodiscard]] CostTable uniform_table(const ScheduleShape& shape, const UniformTimes& times);

// CSV with a header and one row for each global stage, in any order:
//   stage,f_ms,i_ms,w_ms[,b_ms][,r_ms][,send_ms][,latency_ms]
// per micro-batch (slice); b defaults to i + w, r to f, send (the time a message occupies its edge)
// and latency to 0. Throws InputError with row and column.
[[nodiscard]] CostTable parse_times(const std::string& text, const std::string& file,
                                    const ScheduleShape& shape);

}  // namespace weir
