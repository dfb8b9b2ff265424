// The event engine on the program of a measured timeline.
// SPDX-License-Identifier: Apache-2.0
#include "sim/timeline_forecast.hpp"

#include <stdexcept>
#include <variant>

#include "costmodel/fit/step_medians.hpp"
#include "sim/engine/event_engine.hpp"

namespace weir {

Trace forecast_by_step(const Timeline& timeline, std::int32_t priced_by) {
  const OperationCosts costs = price_by_step(timeline.program, timeline.trace, priced_by);
  auto outcome = simulate(timeline.program, costs);
  // Its order of actions ran, and messages have unlimited slots.
  if (const auto* stuck = std::get_if<Stuck>(&outcome)) throw std::logic_error(stuck->report);
  return to_trace(timeline.program, std::get<Timing>(outcome), costs);
}

}  // namespace weir
