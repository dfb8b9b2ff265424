// Every action of a real pipeline of eight GPUs, forecast by the medians of another iteration.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/reproduce/published.hpp"
#include "traces/starts.hpp"
#include "traces/timeline.hpp"

namespace weir {

// Of primus_pp_timeline.csv. Throws InputError.
[[nodiscard]] Timeline primus_timeline(const Publications& published);

// How far starts are off in the iterations after the second, each priced by the medians of the one
// before it: in all of them, and without those that were interrupted (traces/interruptions).
struct TimelineStarts {
  int iterations = 0, interrupted = 0;
  StartErrors all, uninterrupted;
};
[[nodiscard]] TimelineStarts starts_by_previous(const Timeline& timeline);

}  // namespace weir
