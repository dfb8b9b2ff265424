// How many stage-micro-batches each rank holds over time, where a trace alone is known.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "traces/trace.hpp"

namespace weir {

// "in flight" of each rank: one is held from the start of its F to the end of its W or B. Their
// highest values are the peak_in_flight of the schedule that was timed.
[[nodiscard]] std::vector<Counter> in_flight_counters(const Trace& trace);

}  // namespace weir
