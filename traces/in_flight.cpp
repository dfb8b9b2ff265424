// Stage-micro-batches counted along a trace.
// SPDX-License-Identifier: Apache-2.0
#include "traces/in_flight.hpp"

#include <algorithm>
#include <utility>

namespace weir {

std::vector<Counter> in_flight_counters(const Trace& trace) {
  // What begins or ends, by rank: (time, -1 or 1). At one time what ends goes before what begins,
  // since a rank's own actions follow each other.
  std::vector<std::vector<std::pair<Nanoseconds, int>>> changes(
      static_cast<std::size_t>(trace.ranks));
  // Where the vocabulary is divided, stages from K on are its shards.
  const bool divided = std::ranges::any_of(
      trace.spans, [](const Span& span) { return span.action.kind == ActionKind::BROADCAST; });
  for (const Span& span : trace.spans) {
    if (span.lane != LaneKind::compute) continue;
    if (divided && span.action.stage.value >= trace.ranks) continue;
    auto& its = changes[static_cast<std::size_t>(span.rank.value)];
    if (span.action.kind == ActionKind::F) its.emplace_back(span.start, 1);
    if (span.action.kind == ActionKind::B || span.action.kind == ActionKind::W)
      its.emplace_back(span.end, -1);
  }
  std::vector<Counter> counters;
  for (std::int32_t rank = 0; rank < trace.ranks; ++rank) {
    Counter counter{"in flight", Rank{rank}, CounterUnit::count, {}};
    auto& its = changes[static_cast<std::size_t>(rank)];
    std::ranges::sort(its);
    std::int64_t now = 0;
    for (const auto& [time, change] : its) {
      now += change;
      // What changes at one time is one sample, with the last count.
      if (!counter.samples.empty() && counter.samples.back().time == time)
        counter.samples.pop_back();
      counter.samples.push_back({time, now});
    }
    counters.push_back(std::move(counter));
  }
  return counters;
}

}  // namespace weir
