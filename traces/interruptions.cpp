// Actions that took far longer than their like in the same step.
// SPDX-License-Identifier: Apache-2.0
#include "traces/interruptions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "traces/stats.hpp"

namespace weir {

std::vector<Interruption> interruptions(const Trace& measured) {
  std::vector<Interruption> found;
  for (std::size_t i = 0; i < measured.steps.size(); ++i) {
    const auto step = static_cast<std::int32_t>(i);
    const auto spans = measured.of_step(step);
    // Its like of the same step: where all of a step is slow nothing was interrupted.
    std::map<std::pair<Rank, ActionKind>, std::vector<double>> durations;
    for (const Span& span : spans) {
      if (span.lane != LaneKind::compute) continue;
      durations[{span.rank, span.action.kind}].push_back(to_seconds(span.duration()).count());
    }
    std::map<std::pair<Rank, ActionKind>, Seconds> usual;
    for (auto& [key, all] : durations) usual[key] = Seconds(median(std::move(all)));
    for (const Span& span : spans) {
      if (span.lane != LaneKind::compute) continue;
      const Seconds expected = usual.at({span.rank, span.action.kind});
      if (to_seconds(span.duration()) > kInterrupted * expected)
        found.push_back({step, span, expected});
    }
  }
  return found;
}

bool is_interrupted(const std::vector<Interruption>& all, std::int32_t step) {
  return std::ranges::find(all, step, &Interruption::step) != all.end();
}

std::string describe(const Interruption& interruption) {
  return fmt::format("{} took {} where its rank's median is {}",
                     to_string(interruption.action.action),
                     format_duration(to_seconds(interruption.action.duration())),
                     format_duration(interruption.median));
}

}  // namespace weir
