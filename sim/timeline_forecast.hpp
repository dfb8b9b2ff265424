// A run's own timeline forecast from one of its iterations.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "traces/timeline.hpp"
#include "traces/trace.hpp"

namespace weir {

// One step, every action of which takes what its rank's and kind's do in the median in step
// `priced_by`, and begins as much later than it could (costmodel/fit/step_medians).
[[nodiscard]] Trace forecast_by_step(const Timeline& timeline, std::int32_t priced_by);

}  // namespace weir
